"""Check the user's pod template for errors that involve several fields, and name the field of each error.

The API server already refuses most of these errors at admission, by the CRD's rules. The checks here are for files that
no API server has checked, and for objects that were stored under an older CRD.

Check CPU, memory and other resources of the engine's container: refuse what no node could ever grant.

Refuse the user's volumes and mounts that conflict with each other or with the operator's own.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from plimsoll.api.v1alpha1 import PodTemplateSpec, Toleration
from plimsoll.api.v1alpha1.containers import GPU_PREFIXES, ResourcesSpec, Sidecar
from plimsoll.api.v1alpha1.environment import EnvFromSource, EnvVar, EnvVarSource
from plimsoll.api.v1alpha1.values import ANNOTATION_KEY, LABEL_KEY, LONGEST_KEY, OWN_PREFIX, RESOURCE_NAME
from plimsoll.api.v1alpha1.volumes import (
    MOUNTABLE_OWN_VOLUMES,
    OWN_MOUNTS,
    OWN_VOLUMES,
    SOURCES,
    Volume,
    VolumeMount,
)
from plimsoll.domain.errors import InvalidInput, raise_together
from plimsoll.domain.requests.workload import DEFAULT_REQUESTS, Manifest
from plimsoll.domain.units import parse_quantity
from plimsoll.engines.base import Engine
from plimsoll.facts.cluster.gpu_labels import is_gpu_resource


def check_resources(field: str, resources: ResourcesSpec | None) -> None:
    """Refuse requests above their limits, and devices without a limit. Raises :class:`InvalidInput`."""
    if resources is None:
        return
    requests, limits = resources.requests or {}, resources.limits or {}
    for part, names in (("requests", requests), ("limits", limits)):
        _check_names(f"{field}.{part}", names)
    for name, requested in requests.items():
        if name.startswith(GPU_PREFIXES):
            continue
        limit = limits.get(name)
        if limit is not None and parse_quantity(limit) < parse_quantity(requested):
            raise InvalidInput(
                f"{field}.limits.{name}", limit, f"Write at least {requested}, which requests.{name} asks for."
            )
        if _is_whole(name) and (limit is None or parse_quantity(limit) != parse_quantity(requested)):
            raise InvalidInput(f"{field}.requests.{name}", requested, f"Write the same in limits.{name}.")
    for name, limit in limits.items():
        if "/" in name and parse_quantity(limit) % 1:
            raise InvalidInput(f"{field}.limits.{name}", limit, "Write a whole number of devices.")


def _check_names(field: str, names: Iterable[str]) -> None:
    for name in names:
        if len(name) > LONGEST_KEY or not re.fullmatch(RESOURCE_NAME, name):
            raise InvalidInput(
                field, name, "Write cpu, memory, ephemeral-storage, hugepages-2Mi or a device such as example.com/nic."
            )


def engine_resources(resources: ResourcesSpec | None) -> Manifest:
    """Return the requests and limits of the pods.

    The operator requests some CPU and memory if the user sets none. A user's limit below that becomes the request.
    GPUs are left out: a pod that asks for those of two vendors runs nowhere.
    """
    if resources is None:
        return {}
    parts: Manifest = resources.model_dump(mode="json", by_alias=True, exclude_none=True)
    given = {part: {name: parts[part][name] for name in parts[part] if not is_gpu_resource(name)} for part in parts}
    requests, limits = given.get("requests", {}), given.get("limits", {})
    lowered = {
        name: limits[name]
        for name, default in DEFAULT_REQUESTS.items()
        if name in limits and name not in requests and parse_quantity(limits[name]) < parse_quantity(default)
    }
    return given | {"requests": {**requests, **lowered}} if lowered else given


def gpus_remark(field: str, resources: ResourcesSpec | None) -> str | None:
    """Return the warning about a number of GPUs that the user writes; None if there is none."""
    parts = (resources.requests or {}, resources.limits or {}) if resources else ()
    named = sorted({name for part in parts for name in part if is_gpu_resource(name)})
    if not named:
        return None
    return (
        f"{field} names {', '.join(named)}, which is left out: the planner chooses the GPUs of a pod. Remove it; "
        "spec.overrides.tensorParallel sets their number."
    )


def _is_whole(name: str) -> bool:
    """Whether Kubernetes does not overcommit the resource, so that requests and limits must be equal."""
    return "/" in name or name.startswith("hugepages-")


def check_volumes(field: str, volumes: Sequence[Volume]) -> None:
    """Refuse names that are already used and volumes with several sources. Raises :class:`InvalidInput`."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        if volume.name in OWN_VOLUMES:
            raise InvalidInput(
                f"{field}[{index}].name", volume.name, f"{', '.join(OWN_VOLUMES)} are the operator's: rename it."
            )
        if volume.name in seen:
            raise InvalidInput(f"{field}[{index}].name", volume.name, "It is there twice: remove one, or rename it.")
        seen.add(volume.name)
        given = sources_of(volume)
        if len(given) > 1:
            raise InvalidInput(f"{field}[{index}]", ", ".join(given), "A volume has one source: remove the others.")


def sources_of(volume: Volume) -> tuple[str, ...]:
    """Return the sources that a volume names, as users write them. A volume without a source is an emptyDir."""
    given = volume.model_dump(by_alias=True, exclude_none=True)
    return tuple(source for source in SOURCES if source in given)


def check_volume_mounts(
    field: str, mounts: Sequence[VolumeMount], volumes: Sequence[Volume], taken: Sequence[str]
) -> None:
    """Refuse mounts of volumes that do not exist, and paths that are already used. Raises :class:`InvalidInput`.

    ``taken`` are the paths of the container at which the operator mounts volumes.
    """
    names = {*MOUNTABLE_OWN_VOLUMES, *(volume.name for volume in volumes)}
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{field}[{index}]"
        if mount.name not in names:
            raise InvalidInput(f"{where}.name", mount.name, "Name a volume of spec.podTemplate.volumes.")
        path = _plain(mount.mount_path)
        if path == "/" or path in taken:
            said = f"/ and the operator's {', '.join(taken)} are taken" if taken else "/ is taken"
            raise InvalidInput(f"{where}.mountPath", mount.mount_path, f"Write another path: {said}.")
        if path in seen:
            raise InvalidInput(
                f"{where}.mountPath", mount.mount_path, "Something is mounted there: write another path."
            )
        seen.add(path)
        _check_mount(where, mount)


def _check_mount(where: str, mount: VolumeMount) -> None:
    if mount.sub_path and mount.sub_path_expr:
        raise InvalidInput(f"{where}.subPathExpr", mount.sub_path_expr, "Remove it, or subPath.")
    for name, path in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
        if ".." in (path or "").split("/"):
            raise InvalidInput(f"{where}.{name}", path, "Write a path within the volume, without '..'.")
    if mount.recursive_read_only in {"IfPossible", "Enabled"} and not mount.read_only:
        raise InvalidInput(f"{where}.recursiveReadOnly", mount.recursive_read_only, "Write readOnly: true, too.")


def _plain(path: str) -> str:
    """Return the path as the kernel reads it: no double slashes, no dots, no slash at the end."""
    return "/" + posixpath.normpath(path).lstrip("/")


FIELD = "spec.podTemplate"

MOST_ANNOTATION_BYTES = 256 * 1024
"""Most bytes of all annotations of an object together, in UTF-8. Source: ``k8s.io/apimachinery``,
``TotalAnnotationSizeLimitB``."""

_KEY_FIX = "Write a name of at most 63 letters, digits, '-', '_' and '.', with or without a DNS prefix and '/'."


def check_pod_template(template: PodTemplateSpec, engine: Engine) -> None:
    """Refuse fields that the API server would refuse in pods, or that would replace fields of the operator.

    Raises:
        InvalidInput: with the field, its value and what to write.
    """
    volumes, names = template.volumes or (), [secret.name for secret in template.image_pull_secrets or ()]
    raise_together(
        (
            lambda: _check_labels(template.labels or {}),
            lambda: _check_annotations(template.annotations or {}),
            lambda: _check_keys(f"{FIELD}.nodeSelector", template.node_selector or {}, LABEL_KEY),
            lambda: _check_environment(f"{FIELD}.env", template.env or (), engine.reserved_environment),
            lambda: _check_environment_sources(f"{FIELD}.envFrom", template.env_from or ()),
            lambda: _check_tolerations(template.tolerations or ()),
            lambda: check_unique(f"{FIELD}.imagePullSecrets", "name", names),
            lambda: check_volumes(f"{FIELD}.volumes", volumes),
            lambda: check_volume_mounts(f"{FIELD}.volumeMounts", template.volume_mounts or (), volumes, OWN_MOUNTS),
            lambda: check_resources(f"{FIELD}.resources", template.resources),
            *(partial(_check_container, field, each, volumes) for field, each in containers_of(template)),
            lambda: _check_container_names(template),
            lambda: _check_spread(template),
            lambda: _check_dns(template),
        )
    )


def containers_of(template: PodTemplateSpec) -> Iterator[tuple[str, Sidecar]]:
    """Yield the user's own containers, each with its field."""
    for name, containers in (("initContainers", template.init_containers), ("containers", template.containers)):
        for index, each in enumerate(containers or ()):
            yield f"{FIELD}.{name}[{index}]", each


def _check_container(field: str, container: Sidecar, volumes: Sequence[Volume]) -> None:
    """Refuse what the API server would refuse in one of the user's own containers."""
    ports = [f"{port.container_port}/{port.protocol}" for port in container.ports or ()]
    names = [port.name for port in container.ports or () if port.name is not None]
    raise_together(
        (
            lambda: _check_environment(f"{field}.env", container.env or (), ()),
            lambda: _check_environment_sources(f"{field}.envFrom", container.env_from or ()),
            lambda: check_volume_mounts(f"{field}.volumeMounts", container.volume_mounts or (), volumes, ()),
            lambda: check_resources(f"{field}.resources", container.resources),
            lambda: check_unique(f"{field}.ports", "containerPort", ports),
            lambda: check_unique(f"{field}.ports", "name", names),
        )
    )


def _check_container_names(template: PodTemplateSpec) -> None:
    """Refuse a name that two containers have, whichever lists they are in."""
    seen: set[str] = set()
    for field, each in containers_of(template):
        if each.name in seen:
            raise InvalidInput(f"{field}.name", each.name, "It is there twice: remove one, or rename it.")
        seen.add(each.name)


def _check_spread(template: PodTemplateSpec) -> None:
    constraints = template.topology_spread_constraints or ()
    kinds = [f"{each.topology_key} ({each.when_unsatisfiable})" for each in constraints]
    check_unique(f"{FIELD}.topologySpreadConstraints", "topologyKey", kinds)


def _check_dns(template: PodTemplateSpec) -> None:
    if template.dns_policy == "None" and not (template.dns_config and template.dns_config.nameservers):
        raise InvalidInput(f"{FIELD}.dnsPolicy", "None", "Name a server in dnsConfig.nameservers, too.")


def scheduling_remark(template: PodTemplateSpec) -> str | None:
    """Return the warning about rules of the scheduler that the planner does not count with; None if there are none."""
    affinity = template.affinity
    of_pods = (
        () if affinity is None else (("Affinity", affinity.pod_affinity), ("AntiAffinity", affinity.pod_anti_affinity))
    )
    hard = [f"required pod{name}" for name, pods in of_pods if pods is not None and pods.required]
    if any(each.when_unsatisfiable == "DoNotSchedule" for each in template.topology_spread_constraints or ()):
        hard.append("topologySpreadConstraints with DoNotSchedule")
    if template.scheduler_name not in (None, "default-scheduler"):
        hard.append(f"schedulerName {template.scheduler_name}")
    if not hard:
        return None
    return (
        f"The planner does not count with {' and '.join(hard)} in {FIELD}: it promises places by the nodes and what is "
        "free there, so that the scheduler may refuse a place that was promised. Pods that find no node are offered "
        "another place after a grace period. Write a preference or nodeAffinity instead if that will do."
    )


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


def _check_environment(where: str, env: Iterable[EnvVar], reserved: Collection[str]) -> None:
    entries = tuple(env)
    for index, entry in enumerate(entries):
        field = f"{where}[{index}]"
        if entry.name in reserved:
            raise InvalidInput(f"{field}.name", entry.name, "The engine gives it another meaning; remove it.")
        if entry.value is not None and entry.value_from is not None:
            raise InvalidInput(f"{field}.value", entry.value, "Remove it, or valueFrom.")
        if entry.value_from is not None:
            _check_value_source(f"{field}.valueFrom", entry.value_from)
    check_unique(where, "name", [entry.name for entry in entries])


def _check_value_source(field: str, source: EnvVarSource) -> None:
    given = sorted(source.model_dump(by_alias=True, exclude_none=True))
    if len(given) != 1:
        fix = "Write exactly one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef."
        raise InvalidInput(field, ", ".join(given), fix)


def _check_environment_sources(field: str, sources: Iterable[EnvFromSource]) -> None:
    for index, source in enumerate(sources):
        if (source.config_map_ref is None) == (source.secret_ref is None):
            given = "both" if source.secret_ref else "none"
            raise InvalidInput(f"{field}[{index}]", given, "Write exactly one of configMapRef and secretRef.")


def _check_tolerations(tolerations: Iterable[Toleration]) -> None:
    for index, toleration in enumerate(tolerations):
        _check_toleration(f"{FIELD}.tolerations[{index}]", toleration)


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
