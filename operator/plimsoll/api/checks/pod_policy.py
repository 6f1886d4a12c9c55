"""The parts of a pod that authors of InferenceDeployments may set.

The operator may create Deployments in every namespace. A user may have the right to create InferenceDeployments in a
namespace, but no pods. This user must not get more through the operator than their own rights allow. In this policy the
cluster admin decides what they may get. ``docs/security.md`` explains the effects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

from pydantic.alias_generators import to_camel

from plimsoll.api.checks.pod_checks import sources_of
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, PodTemplateSpec
from plimsoll.api.v1alpha1.volumes import SOURCES, Volume
from plimsoll.domain.errors import InvalidInput, NotPermitted
from plimsoll.domain.requests.weights import Scheme

CHART_KEY = "podPolicy"
"""The key of the policy in the chart's values."""

_POD = "spec.podTemplate"
_MOST_ENTRIES = 256
_LONGEST_ENTRY = 253
_BY_CONTENT = ("projected", "secret")
"""Volumes that are checked by the names of their Secrets and service accounts, not by their type."""


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """The parts of a pod that a user may set who can only create InferenceDeployments.

    All fields except ``volume_types`` are shell patterns (``*``, ``?``, ``[ab]``) for names.
    """

    volume_types: tuple[str, ...] = (
        "configMap",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
    )
    """Sources of volumes. ``secret`` and ``projected`` need no entry: they are checked by the names in them."""

    secrets: tuple[str, ...] = ()
    """Secrets that the pods may read, as environment or as files."""

    token_secrets: tuple[str, ...] = ("hf-token", "hf-token-*", "*-hf-token", "huggingface-*", "token")
    """Secrets that ``spec.model.tokenSecretRef`` may name, in addition to ``secrets``."""

    service_accounts: tuple[str, ...] = ()
    """Service accounts that the pods may run as, in addition to ``default``; and those whose token they may mount."""

    priority_classes: tuple[str, ...] = ()
    """Permitted priority classes that begin with ``system-``; all other classes are always permitted."""

    unrestricted_namespaces: tuple[str, ...] = ()
    """Namespaces in which this policy permits everything."""

    @staticmethod
    def from_json(text: str) -> PodPolicy:
        """Read the policy from the chart: an object of lists. A missing list has its default.

        Raises:
            InvalidInput: it is not an object of lists. An invalid policy permits nothing.
        """
        try:
            given = json.loads(text, object_pairs_hook=_once_each)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(CHART_KEY, text, f"Write a JSON object: {error}.") from error
        if not isinstance(given, dict):
            raise InvalidInput(CHART_KEY, text, "Write a JSON object.")
        names = {to_camel(each.name): each.name for each in fields(PodPolicy)}
        for key in given:
            if key not in names:
                raise InvalidInput(f"{CHART_KEY}.{key}", given[key], f"Write one of {', '.join(names)}.")
        policy = PodPolicy(**{names[key]: _texts(f"{CHART_KEY}.{key}", value) for key, value in given.items()})
        for source in policy.volume_types:
            if source not in SOURCES:
                raise InvalidInput(
                    f"{CHART_KEY}.volumeTypes", source, f"Write sources of volumes, e.g. {', '.join(SOURCES[:4])}."
                )
        return policy


def check_pod_policy(spec: InferenceDeploymentSpec, policy: PodPolicy, namespace: str) -> None:
    """Refuse everything that the policy does not permit. Call it before any action for the object.

    Args:
        spec: the user's spec, already checked by :func:`plimsoll.api.conversion.convert.check_without_model`.
        policy: the cluster admin's policy.
        namespace: the object's namespace.

    Raises:
        NotPermitted: with the field, its value and the setting by which the cluster admin could permit it.
    """
    if _matches(namespace, policy.unrestricted_namespaces):
        return
    token = spec.model.token_secret_ref
    if token is not None and not _matches(token.name, (*policy.token_secrets, *policy.secrets)):
        raise _refused("spec.model.tokenSecretRef.name", token.name, "tokenSecrets", policy.token_secrets)
    secret, cache = spec.model.source_secret_ref, spec.model.cache
    if secret is not None:
        _check_secret("spec.model.sourceSecretRef.name", secret.name, policy)
    if cache is not None:
        _check_volume_type("spec.model.cache.claimName", cache.claim_name, "persistentVolumeClaim", policy)
    if (spec.model.source or "").startswith(f"{Scheme.OCI}://"):
        _check_volume_type("spec.model.source", str(spec.model.source), "image", policy)
    if spec.pod_template is not None:
        _check_template(spec.pod_template, policy)


def _check_volume_type(field: str, value: str, source: str, policy: PodPolicy) -> None:
    if source not in policy.volume_types:
        raise _refused(field, value, "volumeTypes", policy.volume_types, needed=source)


def _check_template(template: PodTemplateSpec, policy: PodPolicy) -> None:
    account = template.service_account_name
    if account and account != "default" and not _matches(account, policy.service_accounts):
        raise _refused(f"{_POD}.serviceAccountName", account, "serviceAccounts", ("default", *policy.service_accounts))
    priority = template.priority_class_name
    if priority and priority.startswith("system-") and not _matches(priority, policy.priority_classes):
        raise _refused(f"{_POD}.priorityClassName", priority, "priorityClasses", policy.priority_classes)
    cache = template.model_cache
    if cache is not None and cache.claim_name is not None:
        _check_volume_type(f"{_POD}.modelCache.claimName", cache.claim_name, "persistentVolumeClaim", policy)
    for field, name in _environment_secrets(template):
        _check_secret(field, name, policy)
    for index, volume in enumerate(template.volumes or ()):
        _check_volume(f"{_POD}.volumes[{index}]", volume, policy, account or "default")
    _check_annotations(template.annotations or {})


def _environment_secrets(template: PodTemplateSpec) -> Iterable[tuple[str, str]]:
    for index, entry in enumerate(template.env or ()):
        if entry.value_from is not None and entry.value_from.secret_key_ref is not None:
            yield f"{_POD}.env[{index}].valueFrom.secretKeyRef.name", entry.value_from.secret_key_ref.name
    for index, source in enumerate(template.env_from or ()):
        if source.secret_ref is not None:
            yield f"{_POD}.envFrom[{index}].secretRef.name", source.secret_ref.name


def _check_volume(field: str, volume: Volume, policy: PodPolicy, account: str) -> None:
    for source in sources_of(volume):
        if source not in _BY_CONTENT and source not in policy.volume_types:
            raise _refused(field, source, "volumeTypes", policy.volume_types)
    if volume.secret is not None:
        _check_secret(f"{field}.secret.secretName", volume.secret.secret_name, policy)
    if volume.csi is not None and volume.csi.node_publish_secret_ref is not None:
        _check_secret(f"{field}.csi.nodePublishSecretRef.name", volume.csi.node_publish_secret_ref.name, policy)
    if volume.projected is not None:
        for index, projection in enumerate(volume.projected.sources or ()):
            _check_projection(f"{field}.projected.sources[{index}]", projection, policy, account)


def _check_projection(field: str, source: Mapping[str, Any], policy: PodPolicy, account: str) -> None:
    """Check one source of a projected volume. A source that is not known to be harmless is refused."""
    for kind, content in source.items():
        if content is None or kind in {"configMap", "downwardAPI", "clusterTrustBundle"}:
            continue
        if kind == "secret":
            name = content.get("name") if isinstance(content, dict) else None
            _check_secret(f"{field}.secret.name", name if isinstance(name, str) else "", policy)
        elif kind in {"serviceAccountToken", "podCertificate"}:
            if not _matches(account, policy.service_accounts):
                raise _refused(f"{field}.{kind}", account, "serviceAccounts", policy.service_accounts)
        else:
            raise NotPermitted(field, kind, "Write configMap, downwardAPI, clusterTrustBundle or a permitted secret.")


def _check_secret(field: str, name: str, policy: PodPolicy) -> None:
    if not _matches(name, policy.secrets):
        raise _refused(field, name, "secrets", policy.secrets)


def _check_annotations(annotations: Mapping[str, str]) -> None:
    """Refuse the one annotation by which a pod can weaken its own AppArmor profile."""
    for key, value in annotations.items():
        if key.lower().startswith("container.apparmor.security.beta.kubernetes.io/") and value != "runtime/default":
            raise NotPermitted(
                f"{_POD}.annotations", f"{key}: {value}", "Remove it: the engine runs in the runtime's own profile."
            )


def _refused(field: str, value: str, key: str, permitted: Iterable[str], *, needed: str | None = None) -> NotPermitted:
    listed = ", ".join(permitted) or "none"
    return NotPermitted(
        field,
        value,
        f"The cluster admin permits: {listed}. To permit more, {needed or value} goes into {CHART_KEY}.{key} of the "
        f"chart's values, or the namespace into {CHART_KEY}.unrestrictedNamespaces.",
    )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _texts(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MOST_ENTRIES:
        raise InvalidInput(field, value, f"Write a list of at most {_MOST_ENTRIES} strings.")
    for index, entry in enumerate(value):
        if not isinstance(entry, str) or not 0 < len(entry) <= _LONGEST_ENTRY or entry != entry.strip():
            raise InvalidInput(f"{field}[{index}]", entry, "Write a name or a pattern without spaces around it.")
    return tuple(value)


def _once_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; refuse a key that appears twice, because it is unclear which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found
