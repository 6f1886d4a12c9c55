"""The parts of a pod that authors of InferenceDeployments may set.

The operator may create Deployments in every namespace. A user may have the right to create InferenceDeployments in a
namespace, but no pods. This user must not get more through the operator than their own rights allow. In this policy the
cluster admin decides what they may get. ``docs/security.md`` explains the effects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Any

from pydantic.alias_generators import to_camel, to_snake

from plimsoll.api.checks.pod_checks import containers_of, sources_of
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, ModelSpec, PodTemplateSpec
from plimsoll.api.v1alpha1.containers import EngineProbe, Sidecar
from plimsoll.api.v1alpha1.scheduling import Affinity
from plimsoll.api.v1alpha1.volumes import SOURCES, Volume
from plimsoll.domain.errors import InvalidInput, NotPermitted, raise_first
from plimsoll.domain.requests.weights import Scheme

CHART_KEY = "podPolicy"
"""The key of the policy in the chart's values."""

_POD = "spec.podTemplate"
_MOST_ENTRIES = 256
_LONGEST_ENTRY = 253
_BY_CONTENT = ("projected", "secret")
"""Volumes that are checked by the names of their Secrets and service accounts, not by their type."""


POLICED_FIELDS = {
    *("affinity", "topologySpreadConstraints", "initContainers", "containers", "startupProbe", "readinessProbe"),
    *("livenessProbe", "securityContext", "terminationGracePeriodSeconds", "schedulerName", "dnsPolicy", "dnsConfig"),
    "hostAliases",
}
"""Fields of ``podTemplate`` that the cluster admin can take away."""

FREE_FIELDS = POLICED_FIELDS - {"schedulerName"}
"""Those that authors have without permission: with their image they run any program anyway. Another scheduler may
follow other rules than those by which places are promised."""


@dataclass(frozen=True, slots=True)
class PodPolicy:
    """The parts of a pod that a user may set who can only create InferenceDeployments.

    All fields except ``template_fields`` and ``volume_types`` are shell patterns (``*``, ``?``, ``[ab]``) for names.
    """

    template_fields: tuple[str, ...] = tuple(sorted(FREE_FIELDS))
    """Fields of ``podTemplate`` that change more than the engine's own container, its volumes and its nodes."""

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

    affinity_namespaces: tuple[str, ...] = ()
    """Other namespaces whose pods the rules about pods may name. A pod that must be far from pods of others keeps these
    off its node, too."""

    probe_paths: tuple[str, ...] = ()
    """Paths that the probes of the engine's container may ask, in place of the engine's own."""

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
        for name in policy.template_fields:
            if name not in POLICED_FIELDS:
                raise InvalidInput(
                    f"{CHART_KEY}.templateFields", name, f"Write one of {', '.join(sorted(POLICED_FIELDS))}."
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
    pods = spec.pods
    raise_first([*_of_model(spec.model, policy), *_of_template(pods, policy), *_of_fields(pods, policy, namespace)])


def _of_model(model: ModelSpec, policy: PodPolicy) -> Iterator[NotPermitted]:
    token = model.token_secret_ref
    if token is not None and not _matches(token.name, (*policy.token_secrets, *policy.secrets)):
        yield _refused("spec.model.tokenSecretRef.name", token.name, "tokenSecrets", policy.token_secrets)
    secret, cache, source = model.source_secret_ref, model.cache, model.source or ""
    if secret is not None:
        yield from _of_secret("spec.model.sourceSecretRef.name", secret.name, policy)
    if cache is not None:
        yield from _of_volume_type("spec.model.cache.claimName", cache.claim_name, "persistentVolumeClaim", policy)
    if source.startswith(f"{Scheme.OCI}://"):
        yield from _of_volume_type("spec.model.source", source, "image", policy)


def _of_volume_type(field: str, value: str, source: str, policy: PodPolicy) -> Iterator[NotPermitted]:
    if source not in policy.volume_types:
        yield _refused(field, value, "volumeTypes", policy.volume_types, needed=source)


def _of_template(template: PodTemplateSpec, policy: PodPolicy) -> Iterator[NotPermitted]:
    account = template.service_account_name
    if account and account != "default" and not _matches(account, policy.service_accounts):
        yield _refused(f"{_POD}.serviceAccountName", account, "serviceAccounts", ("default", *policy.service_accounts))
    priority = template.priority_class_name
    if priority and priority.startswith("system-") and not _matches(priority, policy.priority_classes):
        yield _refused(f"{_POD}.priorityClassName", priority, "priorityClasses", policy.priority_classes)
    cache = template.model_cache
    if cache is not None and cache.claim_name is not None:
        field = f"{_POD}.modelCache.claimName"
        yield from _of_volume_type(field, cache.claim_name, "persistentVolumeClaim", policy)
    yield from _of_environment(_POD, template, policy)
    for field, container in containers_of(template):
        yield from _of_environment(field, container, policy)
    for index, volume in enumerate(template.volumes or ()):
        yield from _of_volume(f"{_POD}.volumes[{index}]", volume, policy, account or "default")
    yield from _of_annotations(template.annotations or {})


def _of_fields(template: PodTemplateSpec, policy: PodPolicy, namespace: str) -> Iterator[NotPermitted]:
    for name in sorted(POLICED_FIELDS - {*policy.template_fields}):
        own = to_snake(name)
        if getattr(template, own) is not None:
            value = template.model_dump(by_alias=True, exclude_none=True, include={own})[name]
            yield _refused(f"{_POD}.{name}", value, "templateFields", policy.template_fields, needed=name)
    for kind in ("startup", "readiness", "liveness"):
        probe: EngineProbe | None = getattr(template, f"{kind}_probe")
        path = probe and probe.http_get and probe.http_get.path
        if path and not _matches(path, policy.probe_paths):
            yield _refused(f"{_POD}.{kind}Probe.httpGet.path", path, "probePaths", policy.probe_paths)
    if template.affinity is not None:
        yield from _of_other_namespaces(template.affinity, policy, namespace)


def _of_other_namespaces(affinity: Affinity, policy: PodPolicy, namespace: str) -> Iterator[NotPermitted]:
    """Yield the namespaces of others: Kubernetes has a quota scope for the same, ``CrossNamespacePodAffinity``."""
    key, permitted = "affinityNamespaces", (namespace, *policy.affinity_namespaces)
    for name, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        for each in () if pods is None else (*pods.required, *pods.preferred):
            for other in each.namespaces or ():
                if not _matches(other, permitted):
                    yield _refused(f"{_POD}.affinity.{name}", other, key, permitted)
            if each.namespace_selector is not None and "*" not in permitted:
                yield _refused(f"{_POD}.affinity.{name}", "namespaceSelector", key, permitted, needed="*")


def _of_environment(field: str, container: PodTemplateSpec | Sidecar, policy: PodPolicy) -> Iterator[NotPermitted]:
    for index, entry in enumerate(container.env or ()):
        if entry.value_from is not None and entry.value_from.secret_key_ref is not None:
            name = entry.value_from.secret_key_ref.name
            yield from _of_secret(f"{field}.env[{index}].valueFrom.secretKeyRef.name", name, policy)
    for index, source in enumerate(container.env_from or ()):
        if source.secret_ref is not None:
            yield from _of_secret(f"{field}.envFrom[{index}].secretRef.name", source.secret_ref.name, policy)


def _of_volume(field: str, volume: Volume, policy: PodPolicy, account: str) -> Iterator[NotPermitted]:
    for source in sources_of(volume):
        if source not in _BY_CONTENT and source not in policy.volume_types:
            yield _refused(field, source, "volumeTypes", policy.volume_types)
    if volume.secret is not None:
        yield from _of_secret(f"{field}.secret.secretName", volume.secret.secret_name, policy)
    if volume.csi is not None and volume.csi.node_publish_secret_ref is not None:
        yield from _of_secret(f"{field}.csi.nodePublishSecretRef.name", volume.csi.node_publish_secret_ref.name, policy)
    if volume.projected is not None:
        for index, projection in enumerate(volume.projected.sources or ()):
            yield from _of_projection(f"{field}.projected.sources[{index}]", projection, policy, account)


def _of_projection(field: str, source: Mapping[str, Any], policy: PodPolicy, account: str) -> Iterator[NotPermitted]:
    """Check one source of a projected volume. A source that is not known to be harmless is refused."""
    for kind, content in source.items():
        if content is None or kind in {"configMap", "downwardAPI", "clusterTrustBundle"}:
            continue
        if kind == "secret":
            name = content.get("name") if isinstance(content, dict) else None
            yield from _of_secret(f"{field}.secret.name", name if isinstance(name, str) else "", policy)
        elif kind in {"serviceAccountToken", "podCertificate"}:
            if not _matches(account, policy.service_accounts):
                yield _refused(f"{field}.{kind}", account, "serviceAccounts", policy.service_accounts)
        else:
            yield NotPermitted(field, kind, "Write configMap, downwardAPI, clusterTrustBundle or a permitted secret.")


def _of_secret(field: str, name: str, policy: PodPolicy) -> Iterator[NotPermitted]:
    if not _matches(name, policy.secrets):
        yield _refused(field, name, "secrets", policy.secrets)


def _of_annotations(annotations: Mapping[str, str]) -> Iterator[NotPermitted]:
    """Yield the one annotation by which a pod can weaken its own AppArmor profile."""
    for key, value in annotations.items():
        if key.lower().startswith("container.apparmor.security.beta.kubernetes.io/") and value != "runtime/default":
            yield NotPermitted(
                f"{_POD}.annotations", f"{key}: {value}", "Remove it: the engine runs in the runtime's own profile."
            )


def _refused(
    field: str, value: object, key: str, permitted: Iterable[str], *, needed: str | None = None
) -> NotPermitted:
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
