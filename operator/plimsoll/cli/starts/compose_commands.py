"""The services of a file of Docker Compose as containers.

Source: the Compose specification, https://github.com/compose-spec/compose-spec (services, interpolation, deploy).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.cli.starts.pod_commands import Container, at, listed, texts, whole
from plimsoll.domain.errors import InvalidInput
from plimsoll.engines.start_commands import unresolved

_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)(?::?([-?+=])([^{}]*))?\}|\$([A-Za-z_]\w*)")
"""A variable of the user's shell, and the escape."""


def is_compose(document: Mapping[str, Any]) -> bool:
    """Whether a document is a file of Docker Compose."""
    return isinstance(document.get("services"), dict) and "kind" not in document


def compose_containers(document: Mapping[str, Any]) -> Iterator[Container]:
    """Yield the services in order.

    Raises:
        InvalidInput: the words of a service cannot be divided.
    """
    for name, body in document["services"].items():
        if isinstance(body, dict):
            yield _container(f"services.{name}", body)


def _container(place: str, body: Mapping[str, Any]) -> Container:
    image = body.get("image")
    gpus, resource = _gpus(body)
    return Container(
        place,
        _interpolated(image) if isinstance(image, str) else "",
        _words(body.get("entrypoint"), f"{place}.entrypoint"),
        _words(body.get("command"), f"{place}.command"),
        dict(_environment(body.get("environment"))),
        gpus,
        f"{place}.{resource}",
    )


def _words(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, str):
        return tuple(_interpolated(each) for each in texts(value, place))
    try:
        return tuple(shlex.split(_interpolated(value)))
    except ValueError as error:
        raise InvalidInput(place, value, f"It cannot be divided into words ({error}): close its quotes.") from error


def _environment(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the variables of a service. One without a value is that of the user's shell."""
    pairs = (
        value.items()
        if isinstance(value, dict)
        else (_pair(each) for each in value or ())
        if isinstance(value, list)
        else ()
    )
    for name, given in pairs:
        if isinstance(name, str) and not isinstance(given, dict | list):
            yield name, unresolved(f"${name}") if given is None else _interpolated(str(given))


def _pair(entry: Any) -> tuple[str, str | None]:
    name, equals, value = str(entry).partition("=")
    return name, value if equals else None


def _interpolated(text: str) -> str:
    """Return a text with the defaults of its variables. The user's shell is not asked."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        name = found[1] or found[4]
        return found[3] if found[2] in ("-", "=") else unresolved(f"${{{name}}}")

    return _VARIABLE.sub(value, text)


def _gpus(body: Mapping[str, Any]) -> tuple[int | None, str]:
    """Return the GPUs that a service reserves, and the field; None for all, or where nothing says it."""
    reserved = ("deploy", "resources", "reservations", "devices")
    for devices, field in ((listed(body, *reserved), ".".join(reserved)), (listed(body, "gpus"), "gpus")):
        for each in devices:
            if field == "gpus" or "gpu" in listed(each, "capabilities"):
                ids = listed(each, "device_ids")
                return (len(ids) if ids else whole(at(each, "count"))), field
    return None, "deploy.resources"
