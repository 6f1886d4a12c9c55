"""The PersistentVolumeClaims that a spec names, and the refusal of those that several replicas cannot mount."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll.api.v1alpha1 import InferenceDeploymentSpec
from plimsoll.domain.claims import Claim
from plimsoll.domain.errors import InvalidInput


def claim_names(spec: InferenceDeploymentSpec) -> tuple[str, ...]:
    """Return the names of the claims that the pods mount, each once."""
    return tuple(_fields(spec))


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


def _fields(spec: InferenceDeploymentSpec) -> dict[str, str]:
    """Return the field of each claim, by its name."""
    template, found = spec.pod_template, dict[str, str]()
    if template is None:
        return found
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
