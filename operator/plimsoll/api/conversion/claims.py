"""The volumes that a spec names: claims that not every pod can mount, and the room for the model's files.

An engine downloads these files when it starts: onto a node's disk, or onto a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.api.v1alpha1.volumes import EphemeralVolume
from plimsoll.domain.cluster.node_rules import Claim, Mounted, NodeRule, disk_rule
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import Evidence, ModelFacts
from plimsoll.domain.requests.workload import WorkloadOptions
from plimsoll.domain.units import GIB, ceil_div, format_gib, parse_bytes
from plimsoll.engines.node_needs import fills_cache
from plimsoll.memory.weights import stage_weights


def mounted_volumes(spec: InferenceDeploymentSpec) -> tuple[Mounted, ...]:
    """Return the claims that the pods mount, each once, and the volumes that a named class makes for each pod.

    If the template of such a volume names no class, the cluster's default makes it, which is not known here.
    """
    return (*(Mounted(name) for name in _fields(spec)), *_made_for_each_pod(spec))


def unusable_claim(spec: InferenceDeploymentSpec, claims: Iterable[Claim]) -> InvalidInput | None:
    """Return the refusal of the first claim that no new pod can mount, wherever it runs; None if all can be."""
    fields = _fields(spec) | {str(each): where for each, where in _made_for_each_pod(spec).items()}
    for claim in claims:
        if claim.why_unusable:
            return InvalidInput(fields[claim.name], claim.name, claim.why_unusable)
    return None


def check_claims(spec: InferenceDeploymentSpec, claims: Iterable[Claim]) -> None:
    """Refuse a claim that the pods of several replicas cannot mount. Raises :class:`InvalidInput`."""
    where = "spec.replicas" if spec.total_concurrency is None else "spec.minReplicas"
    if spec.fewest <= 1:
        return
    fields = _fields(spec)
    for claim in claims:
        if claim.is_for_one_node:
            modes = " and ".join(claim.access_modes)
            fix = (
                f"The claim is {modes}, and pods of {spec.fewest} replicas mount it on several nodes. Name a claim "
                "with ReadWriteMany or ReadOnlyMany, leave it out so that each pod loads the model, or set "
                f"{where} to 1."
            )
            raise InvalidInput(fields[claim.name], claim.name, fix)


def _made_for_each_pod(spec: InferenceDeploymentSpec) -> dict[Mounted, str]:
    found = dict[Mounted, str]()
    for index, volume in enumerate(spec.pods.volumes or ()):
        kind = "" if volume.ephemeral is None else _class_of(volume.ephemeral)
        if kind:
            found[Mounted(volume.name, kind)] = f"spec.podTemplate.volumes[{index}].ephemeral"
    return found


def _class_of(ephemeral: EphemeralVolume) -> str:
    """Return the class that a template names; empty if it names none, or if its content is no template."""
    wanted = (ephemeral.volume_claim_template or {}).get("spec")
    kind = wanted.get("storageClassName") if isinstance(wanted, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _fields(spec: InferenceDeploymentSpec) -> dict[str, str]:
    template, found = spec.pods, dict[str, str]()
    for index, volume in enumerate(template.volumes or ()):
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
            found.setdefault(name, f"spec.podTemplate.volumes[{index}].persistentVolumeClaim.claimName")
    if template.model_cache is not None and template.model_cache.claim_name is not None:
        found[template.model_cache.claim_name] = CLAIM_NAME
    if spec.model.cache is not None:
        found[spec.model.cache.claim_name] = WEIGHTS_CLAIM
    return found


SIZE_LIMIT = "spec.podTemplate.modelCache.sizeLimit"
CLAIM_NAME = "spec.podTemplate.modelCache.claimName"
WEIGHTS_CLAIM = "spec.model.cache.claimName"


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
    """Return the warning about a claim that has less room than the model's files take; nothing if it has enough."""
    kept = None if options.weights is None else options.weights.claim
    name, field = (options.pod.cache_claim, CLAIM_NAME) if kept is None else (kept, WEIGHTS_CLAIM)
    found = next((claim for claim in claims if claim.name == name), None)
    if found is None or found.capacity_bytes is None or not (kept or fills_cache(options)):
        return ()
    size = _files_bytes(model)
    if size <= found.capacity_bytes:
        return ()
    said = (
        f"The claim {name} in {field} has {format_gib(found.capacity_bytes)}, and the model's files take "
        f"{format_gib(size)}: unless its storage lets it grow, the download fails. Enlarge it or name another one."
    )
    return (said,)


_OTHER_FILES_GIB = 10
"""Room for what engines keep next to the weights: compiled kernels, tokenizers."""


def _files_bytes(model: ModelFacts) -> int:
    """Return the bytes of the weights as they are published, without those that this engine does not load."""
    return stage_weights(model, model.checkpoint.precision, Split(1)).parameters_bytes
