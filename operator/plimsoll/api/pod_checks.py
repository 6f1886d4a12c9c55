"""Check the user's pod template for errors that involve several fields, and name the field of each error.

The API server already refuses most of these errors at admission, by the CRD's rules. The checks here are for files that
no API server has checked, and for objects that were stored under an older CRD.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from plimsoll.api.resource_checks import check_resources
from plimsoll.api.v1alpha1 import PodTemplateSpec, Toleration
from plimsoll.api.v1alpha1.environment import EnvFromSource, EnvVar, EnvVarSource
from plimsoll.api.v1alpha1.values import ANNOTATION_KEY, LABEL_KEY, LONGEST_KEY, OWN_PREFIX
from plimsoll.api.volume_checks import check_volume_mounts, check_volumes
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.base import Engine

FIELD = "spec.podTemplate"

MOST_ANNOTATION_BYTES = 256 * 1024
"""Most bytes of all annotations of an object together, in UTF-8. Source: ``k8s.io/apimachinery``,
``TotalAnnotationSizeLimitB``."""

_KEY_FIX = "Write a name of at most 63 letters, digits, '-', '_' and '.', with or without a DNS prefix and '/'."


def check_pod_template(template: PodTemplateSpec | None, engine: Engine) -> None:
    """Refuse fields that the API server would refuse in pods, or that would replace fields of the operator.

    Raises:
        InvalidInput: with the field, its value and what to write.
    """
    if template is None:
        return
    _check_labels(template.labels or {})
    _check_annotations(template.annotations or {})
    _check_keys(f"{FIELD}.nodeSelector", template.node_selector or {}, LABEL_KEY)
    _check_environment(template.env or (), engine)
    for index, source in enumerate(template.env_from or ()):
        _check_environment_source(f"{FIELD}.envFrom[{index}]", source)
    for index, toleration in enumerate(template.tolerations or ()):
        _check_toleration(f"{FIELD}.tolerations[{index}]", toleration)
    check_unique(f"{FIELD}.imagePullSecrets", "name", [secret.name for secret in template.image_pull_secrets or ()])
    check_volumes(f"{FIELD}.volumes", template.volumes or ())
    check_volume_mounts(f"{FIELD}.volumeMounts", template.volume_mounts or (), template.volumes or ())
    check_resources(f"{FIELD}.resources", template.resources)


def check_unique(field: str, member: str, values: Iterable[str]) -> None:
    """Refuse a list in which two entries have the same ``member``; the error names the second one."""
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            raise InvalidInput(f"{field}[{index}].{member}", value, "It is there twice: remove one, or rename it.")
        seen.add(value)


def _check_labels(labels: Mapping[str, str]) -> None:
    _check_keys(f"{FIELD}.labels", labels, LABEL_KEY)
    for key in labels:
        if re.fullmatch(OWN_PREFIX, key):
            raise InvalidInput(f"{FIELD}.labels", key, "Keys under plimsoll.dev/ are the operator's: remove it.")


def _check_annotations(annotations: Mapping[str, str]) -> None:
    _check_keys(f"{FIELD}.annotations", annotations, ANNOTATION_KEY)
    size = sum(len(part.encode("utf-8", "replace")) for pair in annotations.items() for part in pair)
    if size > MOST_ANNOTATION_BYTES:
        raise InvalidInput(
            f"{FIELD}.annotations", f"{size} bytes", f"Write at most {MOST_ANNOTATION_BYTES} bytes together."
        )


def _check_keys(field: str, values: Iterable[str], pattern: str) -> None:
    for key in values:
        if len(key) > LONGEST_KEY or not re.fullmatch(pattern, key):
            raise InvalidInput(field, key, _KEY_FIX)


def _check_environment(env: Iterable[EnvVar], engine: Engine) -> None:
    entries = tuple(env)
    for index, entry in enumerate(entries):
        field = f"{FIELD}.env[{index}]"
        if entry.name in engine.reserved_environment:
            raise InvalidInput(f"{field}.name", entry.name, "The engine gives it another meaning; remove it.")
        if entry.value is not None and entry.value_from is not None:
            raise InvalidInput(f"{field}.value", entry.value, "Remove it, or valueFrom.")
        if entry.value_from is not None:
            _check_value_source(f"{field}.valueFrom", entry.value_from)
    check_unique(f"{FIELD}.env", "name", [entry.name for entry in entries])


def _check_value_source(field: str, source: EnvVarSource) -> None:
    given = sorted(source.model_dump(by_alias=True, exclude_none=True))
    if len(given) != 1:
        fix = "Write exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef."
        raise InvalidInput(field, ", ".join(given), fix)


def _check_environment_source(field: str, source: EnvFromSource) -> None:
    if (source.config_map_ref is None) == (source.secret_ref is None):
        given = "both" if source.secret_ref else "none"
        raise InvalidInput(field, given, "Write exactly one of configMapRef and secretRef.")


def _check_toleration(field: str, toleration: Toleration) -> None:
    exists = toleration.operator == "Exists"
    if not toleration.key and not exists:
        raise InvalidInput(f"{field}.operator", toleration.operator, "Name a key, or write Exists for every taint.")
    if exists and toleration.value:
        raise InvalidInput(f"{field}.value", toleration.value, "Operator Exists takes no value: remove it.")
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        raise InvalidInput(
            f"{field}.tolerationSeconds", toleration.toleration_seconds, "Write effect NoExecute, or remove it."
        )
