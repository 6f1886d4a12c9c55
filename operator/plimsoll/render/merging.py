"""A user's part of a pod's spec, merged into the operator's as Kubernetes does it: lists by the keys of their entries.

Source: "strategic merge patch" of the API conventions, with the list-map keys of ``k8s.io/api/core/v1``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.domain.requests.workload import Manifest

_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "imagePullSecrets": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "protocol"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "hostAliases": ("ip",),
}
"""The fields by which entries of a list are the same one. Every other list is replaced as a whole."""


def merged(own: Mapping[str, Any], patch: Mapping[str, Any]) -> Manifest:
    """Return ``own`` with what ``patch`` adds and replaces. Entries that only ``patch`` has follow the others."""
    found = dict(own)
    for name, value in patch.items():
        before = found.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            found[name] = merged(before, value)
        elif name in _KEYS and isinstance(before, list) and isinstance(value, list):
            found[name] = _together(before, value, _KEYS[name])
        else:
            found[name] = value
    return found


def _together(own: Sequence[Manifest], patch: Sequence[Manifest], keys: Sequence[str]) -> list[Manifest]:
    found = {tuple(entry.get(key) for key in keys): entry for entry in own}
    for entry in patch:
        place = tuple(entry.get(key) for key in keys)
        found[place] = merged(found.get(place, {}), entry)
    return [*found.values()]
