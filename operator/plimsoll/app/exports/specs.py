"""The spec of an InferenceDeployment without the values that may be secret and that no decision reads.

Values of labels and annotations of pods, places in buckets and registries, options of storage drivers, and values of
variables and engine flags that do not change the estimate become ``left-out``. The same is done to the files of a
replay, so that both still compare equal.
So do the name of the gateway's pool in ``rebalancing`` and the names in ``routing.gateway``: the rest of both is modes,
bounds and times, and no plan reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from plimsoll.api.bounds import ENGINE_VERSION, usual_release
from plimsoll.api.v1alpha1.volumes import SOURCES
from plimsoll.app.exports.document import Body
from plimsoll.domain.engines.engine_choice import ANY_ENGINE, DEFAULT_ENGINE, EngineVersion
from plimsoll.domain.errors import PlimsollError
from plimsoll.engines.base import Engine
from plimsoll.engines.registry import ENGINES

LEFT_OUT = "left-out"

_VALUES = (LEFT_OUT, "0", "{}")

_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""The pod policy reads the values of annotations with this prefix."""

_UNTYPED = frozenset({*SOURCES[SOURCES.index("secret") + 1 :], "ephemeral"})
"""Sources of volumes whose content is passed on as it is, with anything in it."""


def without_secrets(spec: Body) -> dict[str, Any]:
    """Return the spec as a snapshot holds it."""
    found = dict(spec)
    template, engine, model = spec.get("podTemplate"), spec.get("engine"), spec.get("model")
    if isinstance(model, Mapping) and isinstance(model.get("source"), str):
        found["model"] = {**model, "source": f"{model['source'].partition('://')[0]}://{LEFT_OUT}"}
    if isinstance(template, Mapping):
        found["podTemplate"] = _template(template)
    start = _Start.of(engine, template).without_values()
    if isinstance(engine, Mapping) and isinstance(engine.get("extraArgs"), list):
        found["engine"] = {**engine, "extraArgs": start.arguments}
    if isinstance(template, Mapping) and isinstance(template.get("env"), list):
        found["podTemplate"]["env"] = start.variables
    loop = spec.get("rebalancing")
    if isinstance(loop, Mapping) and isinstance(loop.get("gateway"), Mapping):
        found["rebalancing"] = {**loop, "gateway": {**loop["gateway"], "inferencePool": LEFT_OUT}}
    routing = spec.get("routing")
    if isinstance(routing, Mapping) and isinstance(routing.get("gateway"), Mapping):
        found["routing"] = {**routing, "gateway": {"name": LEFT_OUT}}
    return found


def _template(template: Body) -> dict[str, Any]:
    """Pull secrets go, because even their names are read by nothing here."""
    found = {name: value for name, value in template.items() if name != "imagePullSecrets"}
    for name in ("labels", "annotations"):
        if isinstance(template.get(name), Mapping):
            found[name] = {
                key: value if key.lower().startswith(_APPARMOR) else LEFT_OUT for key, value in template[name].items()
            }
    for name, written in (("volumes", _volume), ("containers", _container), ("initContainers", _container)):
        if isinstance(template.get(name), list):
            found[name] = [written(each) for each in template[name]]
    return found


def _container(container: Body) -> dict[str, Any]:
    """Return the parts of a further container that count: resources, when it runs, and Secrets of the pod policy."""
    kept = {name: container[name] for name in ("name", "resources", "restartPolicy", "envFrom") if name in container}
    if isinstance(container.get("env"), list):
        kept["env"] = [_unset(each) for each in container["env"]]
    return kept | {"image": LEFT_OUT}


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


class _Start(NamedTuple):
    """The part of a spec that goes into the engine's start: arguments, and variables of its container."""

    engine: Body
    arguments: list[Any]
    variables: list[Any]

    @classmethod
    def of(cls, engine: object, template: object) -> _Start:
        given = engine if isinstance(engine, Mapping) else {}
        pods = template if isinstance(template, Mapping) else {}
        arguments, variables = given.get("extraArgs"), pods.get("env")
        return cls(
            given,
            list(arguments) if isinstance(arguments, list) else [],
            list(variables) if isinstance(variables, list) else [],
        )

    def without_values(self) -> _Start:
        """Leave out the value of every argument and variable that the planner does not read."""
        if self._program is None:
            return self._replace(
                arguments=[LEFT_OUT for _ in self.arguments], variables=[_unset(each) for each in self.variables]
            )
        found, wanted = self, self.effect()
        for index, argument in enumerate(self.arguments):
            others = (found._replace(arguments=_with(found.arguments, index, each)) for each in _hidden(str(argument)))
            found = next((other for other in others if other.effect() == wanted), found)
        for index, variable in enumerate(self.variables):
            other = found._replace(variables=_with(found.variables, index, _unset(variable)))
            found = other if other.effect() == wanted else found
        return found

    @property
    def _program(self) -> Engine | None:
        """The engine whose arguments they are; None if it is not known. An open choice gives them to the usual one."""
        name = str(self.engine.get("name") or DEFAULT_ENGINE)
        return ENGINES.get(DEFAULT_ENGINE if name == ANY_ENGINE else name)

    def effect(self) -> object:
        """Everything that decisions read of a start; for one that cannot be used, the error."""
        engine = self._program
        if engine is None:
            return None
        version = str(self.engine.get("version"))
        release = EngineVersion.of(version) if re.fullmatch(ENGINE_VERSION, version) else usual_release(engine)
        arguments = [str(each) for each in self.arguments]
        variables = {str(each["name"]): str(each["value"]) for each in self.variables if each.get("value") is not None}
        misuse = engine.misused_argument(arguments, release)
        refused = None if misuse is None else misuse.position
        reader = engine.start_commands
        try:
            start = None if reader is None else reader.read(arguments, variables, "", release)
            return start, engine.host_use(arguments, variables), refused
        except PlimsollError as error:
            return str(error)


def _with(values: Sequence[Any], index: int, value: Any) -> list[Any]:
    return [*values[:index], value, *values[index + 1 :]]


def _unset(variable: Body) -> Body:
    return {**variable, "value": LEFT_OUT} if variable.get("value") else variable


def _hidden(argument: str) -> tuple[str, ...]:
    """The argument with other values, of which flags take one kind or another."""
    if not argument.startswith("-"):
        return _VALUES
    flag, equals, _ = argument.partition("=")
    return tuple(f"{flag}={value}" for value in _VALUES) if equals else (flag,)


def skeleton(value: Any) -> Any:
    """The keys of nested mappings without any value: enough to know which fields a manifest had."""
    return {key: skeleton(each) for key, each in value.items()} if isinstance(value, Mapping) else None
