"""The volumes that a spec names, and the refusal of claims that no pod, or not every replica, can mount."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.api.v1alpha1.volumes import EphemeralVolume
from plimsoll.domain.cluster.node_rules import Claim, Mounted
from plimsoll.domain.errors import InvalidInput


def mounted_volumes(spec: InferenceDeploymentSpec) -> tuple[Mounted, ...]:
    """Return the claims that the pods mount, each once, and the volumes that a named class makes for each pod.

    Where the template of such a volume names no class, the cluster's default makes it, which is not known here.
    """
    return (*(Mounted(name) for name in _fields(spec)), *_made_for_each_pod(spec))


def unusable_claim(spec: InferenceDeploymentSpec, claims: Iterable[Claim]) -> InvalidInput | None:
    """Return the refusal of the first claim that no new pod can mount, wherever it runs; None where all can be."""
    fields = _fields(spec) | {str(each): where for each, where in _made_for_each_pod(spec).items()}
    for claim in claims:
        if claim.why_unusable:
            return InvalidInput(fields[claim.name], claim.name, claim.why_unusable)
    return None


def check_claims(spec: InferenceDeploymentSpec, claims: Iterable[Claim]) -> None:
    """Refuse a claim that the pods of several replicas cannot mount. Raises :class:`InvalidInput`."""
    asked, where = _replicas(spec)
    if asked <= 1:
        return
    fields = _fields(spec)
    for claim in claims:
        if claim.is_for_one_node:
            modes = " and ".join(claim.access_modes)
            fix = (
                f"The claim is {modes}, and pods of {asked} replicas mount it on several nodes. Name a claim with "
                f"ReadWriteMany or ReadOnlyMany, leave it out so that each pod loads the model, or set {where} to 1."
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
    """Return the class that a template names; empty where it names none, or where its content is no template."""
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
        found[template.model_cache.claim_name] = "spec.podTemplate.modelCache.claimName"
    return found


def _replicas(spec: InferenceDeploymentSpec) -> tuple[int, str]:
    """Return the least number of replicas that the user asks for, and its field."""
    if spec.total_concurrency is None:
        return spec.replicas, "spec.replicas"
    return spec.min_replicas or 1, "spec.minReplicas"
