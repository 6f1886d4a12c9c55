"""The room for the model's files, which an engine downloads when it starts: on a node's disk, or on a claim."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.domain.cluster.node_rules import Claim, NodeRule, disk_rule
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import Evidence, ModelFacts
from plimsoll.domain.requests.workload import WorkloadOptions
from plimsoll.domain.units import GIB, ceil_div, format_gib, parse_bytes
from plimsoll.engines.node_needs import fills_cache
from plimsoll.memory.weights import stage_weights

SIZE_LIMIT = "spec.podTemplate.modelCache.sizeLimit"
CLAIM_NAME = "spec.podTemplate.modelCache.claimName"


def disk_rules(options: WorkloadOptions, model: ModelFacts, smallest: int | None) -> tuple[NodeRule, ...]:
    """Return the rule for the disks of nodes, if a start keeps the model's files there and some disk is too small.

    The files of the checkpoint are counted if its model class is known, and nothing else that pods and images write: a
    node that the rule accepts may still be too small. ``smallest`` is the smallest disk of any node, in bytes; None if
    none is known.

    Raises:
        InvalidInput: the user's limit of the volume is below the size of the files. The kubelet evicts such a pod.
    """
    if options.pod.cache_claim is not None or not fills_cache(options) or model.evidence is Evidence.GENERIC:
        return ()
    size, limit = _files_bytes(model), options.pod.cache_size_limit
    if limit is not None and parse_bytes(limit) < size:
        raise InvalidInput(
            SIZE_LIMIT,
            limit,
            f"The model's files take {format_gib(size)}, and the kubelet evicts a pod whose volume holds more than its "
            f"limit. Write {ceil_div(size, GIB) + _OTHER_FILES_GIB}Gi or more, or remove it.",
        )
    return (disk_rule(size),) if smallest is not None and smallest < size else ()


def claim_remarks(options: WorkloadOptions, model: ModelFacts, claims: Iterable[Claim]) -> tuple[str, ...]:
    """Return the warning about a claim that has less room than the model's files take; nothing where it has enough."""
    name = options.pod.cache_claim
    found = next((claim for claim in claims if claim.name == name), None)
    if found is None or found.capacity_bytes is None or not fills_cache(options):
        return ()
    size = _files_bytes(model)
    if size <= found.capacity_bytes:
        return ()
    said = (
        f"The claim {name} in {CLAIM_NAME} has {format_gib(found.capacity_bytes)}, and the model's files take "
        f"{format_gib(size)}: unless its storage lets it grow, the download fails. Enlarge it or name another one."
    )
    return (said,)


_OTHER_FILES_GIB = 10
"""Room for what engines keep next to the weights: compiled kernels, tokenizers."""


def _files_bytes(model: ModelFacts) -> int:
    """Return the bytes of the weights as they are published, without those that this engine does not load."""
    return stage_weights(model, model.checkpoint.precision, Split(1)).parameters_bytes
