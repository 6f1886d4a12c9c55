"""A proposal as a change of the spec, for people who keep their manifests in Git."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from plimsoll.api.v1alpha1.base import ApiModel
from plimsoll.api.v1alpha1.inbox import ProposalContent
from plimsoll.api.v1alpha1.spec import EngineSpec, OverridesSpec
from plimsoll.console.views.proposals.lines import replicas_of, split_of
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.spot import capacity_of
from plimsoll.domain.decisions.outcomes import Split

Spec = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SpecChange:
    """The fields of the spec as YAML, with a note; or no YAML, and why there is none."""

    yaml: str = ""
    note: str = ""


def spec_change_of(content: ProposalContent, spec: Spec) -> SpecChange:
    """Return the change of a spec that asks for the same as the proposal.

    Args:
        content: the proposal.
        spec: that of the deployment now; empty if it is not known.
    """
    match content.change:
        case "AddReplica" | "RemoveReplica":
            return _replicas(content, spec)
        case "Retune":
            return _settings(content)
        case "Move":
            return _place(content, spec)
        case "ReplaceReplica":
            return SpecChange(
                note="The spec does not say on which node a replica runs. Approve the proposal, or "
                "cordon the node and delete the pod."
            )
        case _:
            return SpecChange(note="This kind of change is not known here, so no change of the spec is shown.")


def _replicas(content: ProposalContent, spec: Spec) -> SpecChange:
    wanted = replicas_of(content.to)
    if "totalConcurrency" not in spec:
        note = "In Auto mode this is only the number to start from." if _mode(spec) == "Auto" else ""
        return _written({"replicas": wanted}, note)
    if content.change == "AddReplica":
        return _written({"minReplicas": wanted}, "With totalConcurrency the planner chooses the number of replicas.")
    return SpecChange(
        note="The spec has totalConcurrency, so the planner chooses the number of replicas. The spec cannot say fewer: "
        "lower totalConcurrency or minReplicas, or approve the proposal."
    )


def _mode(spec: Spec) -> object:
    live = spec.get("rebalancing")
    return live.get("mode") if isinstance(live, Mapping) else None


def _settings(content: ProposalContent) -> SpecChange:
    if len(content.from_) != 1 or len(content.to) != 1 or split_of(content.to[0]).data_parallel > 1:
        return SpecChange(
            note="The spec has one setting for all engines of a deployment. These replicas are not alike, or have "
            "several engines each, so the change cannot be written there."
        )
    before, after = content.from_[0].settings, content.to[0].settings
    if after is None:
        return SpecChange(note="The proposal does not name the settings, so no change of the spec is shown.")
    changed = {
        field: value
        for field, name in (("maxSequences", "max_num_seqs"), ("maxBatchedTokens", "max_num_batched_tokens"))
        if (value := getattr(after, name)) is not None and value != getattr(before, name, None)
    }
    return _written({"engine": changed}) if changed else SpecChange(note="No setting of the spec changes.")


def _place(content: ProposalContent, spec: Spec) -> SpecChange:
    if len(content.to) != 1:
        return SpecChange(
            note="The replicas are to be on several places. The spec can fix only one, so the change cannot be written "
            "there. Approve the proposal, or set spec.rebalancing.moves to Auto."
        )
    (place,) = content.to
    split = split_of(place)
    if not _is_plain(split) or place.capacity_type:
        return SpecChange(
            note="The spec can fix a GPU type and a tensor-parallel degree, but no pipeline stages, no several engines "
            "and no spot nodes. So the change cannot be written there. Approve the proposal, or set "
            "spec.rebalancing.moves to Auto."
        )
    overrides = {"gpuType": place.gpu_type, "tensorParallel": place.tensor_parallel}
    more = {"replicas": place.replicas} if replicas_of(content.from_) != place.replicas else {}
    fixed = "It fixes the place: the planner does not choose another one until the override is removed."
    return _written({"overrides": overrides} | ({} if "totalConcurrency" in spec else more), fixed)


def fixed_place(gpu_type: str, split: Split) -> str:
    """Return the fields of a spec that fix this place, as YAML; empty if a spec cannot say it."""
    if not _is_plain(split) or capacity_of(gpu_type) is not CapacityType.ON_DEMAND:
        return ""
    return _written({"overrides": {"gpuType": gpu_type, "tensorParallel": split.tensor_parallel}}).yaml


def _is_plain(split: Split) -> bool:
    return (split.pipeline_parallel, split.data_parallel, split.expert_parallel) == (1, 1, False)


_CHECKED: Mapping[str, type[ApiModel]] = {"overrides": OverridesSpec, "engine": EngineSpec}


def _written(fields: dict[str, Any], note: str = "") -> SpecChange:
    """Return the fields as YAML, if the API takes them."""
    try:
        for name, value in fields.items():
            if name in _CHECKED:
                _CHECKED[name].model_validate(value, by_alias=True, by_name=False)
            elif not isinstance(value, int) or not 0 <= value <= _MOST_REPLICAS:
                return SpecChange(note=f"The API does not take {name} {value}.")
    except ValidationError:
        return SpecChange(note="The API does not take the values of this proposal, so no change of the spec is shown.")
    return SpecChange(yaml.safe_dump({"spec": fields}, sort_keys=False), note)


_MOST_REPLICAS = 1000
"""The most replicas that the API takes."""
