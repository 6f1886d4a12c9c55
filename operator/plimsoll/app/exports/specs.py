"""The spec of an InferenceDeployment without the values that may be secret and that no decision reads.

Values of variables, labels and annotations of pods, options of storage drivers, and values of engine flags that do not
change the estimate become ``left-out``. The same is done to the files of a replay, so that they still compare equal.
Of ``rebalancing``, only the name of the gateway's pool does: the rest is modes, bounds and times, and no plan reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from plimsoll.api.bounds import DEFAULT_ENGINE_VERSION, ENGINE_VERSION
from plimsoll.api.v1alpha1.volumes import SOURCES
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE, EngineVersion
from plimsoll.domain.errors import PlimsollError
from plimsoll.engines.registry import ENGINES

Body = Mapping[str, Any]

LEFT_OUT = "left-out"

_VALUES = (LEFT_OUT, "0", "{}")

_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""The pod policy reads the values of annotations with this prefix."""

_UNTYPED = frozenset({*SOURCES[SOURCES.index("secret") + 1 :], "ephemeral"})
"""Sources of volumes whose content is passed on as it is, with anything in it."""


def without_secrets(spec: Body) -> dict[str, Any]:
    """Return the spec as a snapshot holds it."""
    found = dict(spec)
    template, engine = spec.get("podTemplate"), spec.get("engine")
    if isinstance(template, Mapping):
        found["podTemplate"] = _template(template)
    if isinstance(engine, Mapping) and isinstance(engine.get("extraArgs"), list):
        found["engine"] = {**engine, "extraArgs": _arguments(engine)}
    loop = spec.get("rebalancing")
    if isinstance(loop, Mapping) and isinstance(loop.get("gateway"), Mapping):
        found["rebalancing"] = {**loop, "gateway": {**loop["gateway"], "inferencePool": LEFT_OUT}}
    return found


def _template(template: Body) -> dict[str, Any]:
    """Pull secrets go, because even their names are read by nothing here."""
    found = {name: value for name, value in template.items() if name != "imagePullSecrets"}
    for name in ("labels", "annotations"):
        if isinstance(template.get(name), Mapping):
            found[name] = {
                key: value if key.lower().startswith(_APPARMOR) else LEFT_OUT for key, value in template[name].items()
            }
    if isinstance(template.get("env"), list):
        found["env"] = [{**entry, "value": LEFT_OUT} if entry.get("value") else entry for entry in template["env"]]
    if isinstance(template.get("volumes"), list):
        found["volumes"] = [_volume(volume) for volume in template["volumes"]]
    return found


def _volume(volume: Body) -> dict[str, Any]:
    found = {name: _blank(value) if name in _UNTYPED else value for name, value in volume.items()}
    driver = volume.get("csi")
    if isinstance(driver, Mapping) and "volumeAttributes" in driver:
        found["csi"] = {**driver, "volumeAttributes": _blank(driver["volumeAttributes"])}
    return found


def _blank(value: Any) -> Any:
    """The same structure with ``left-out`` for every text."""
    if isinstance(value, Mapping):
        return {key: _blank(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_blank(each) for each in value]
    return LEFT_OUT if isinstance(value, str) else value


def _arguments(engine: Body) -> list[Any]:
    """Leave out the value of every argument that the planner does not read."""
    arguments: list[Any] = list(engine["extraArgs"])
    name = str(engine.get("name") or DEFAULT_ENGINE)
    if name not in ENGINES:
        return [LEFT_OUT for _ in arguments]
    wanted = _effect(engine, arguments)
    for index, argument in enumerate(arguments):
        others = ([*arguments[:index], hidden, *arguments[index + 1 :]] for hidden in _hidden(str(argument)))
        arguments = next((other for other in others if _effect(engine, other) == wanted), arguments)
    return arguments


def _hidden(argument: str) -> tuple[str, ...]:
    """The argument with other values, of which flags take one kind or another."""
    if not argument.startswith("-"):
        return _VALUES
    flag, equals, _ = argument.partition("=")
    return tuple(f"{flag}={value}" for value in _VALUES) if equals else (flag,)


def _effect(spec: Body, arguments: Sequence[Any]) -> object:
    """Everything that decisions read of the arguments; for arguments that cannot be used, the error."""
    engine = ENGINES[str(spec.get("name") or DEFAULT_ENGINE)]
    version = str(spec.get("version"))
    known = version if re.fullmatch(ENGINE_VERSION, version) else DEFAULT_ENGINE_VERSION
    misuse = engine.misused_argument([str(each) for each in arguments], EngineVersion.of(known))
    refused = None if misuse is None else misuse.position
    try:
        return engine.unfollowed_arguments(arguments), engine.host_use(arguments), refused
    except PlimsollError as error:
        return str(error)


def skeleton(value: Any) -> Any:
    """The keys of nested mappings without any value: enough to know which fields a manifest had."""
    return {key: skeleton(each) for key, each in value.items()} if isinstance(value, Mapping) else None
