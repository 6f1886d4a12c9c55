"""The option ``--what-if``: text to values."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.app.review.values import AddNodes, RemoveNodes, SetField, WhatIf
from plimsoll.cli.questions.names import Meant, meant_types
from plimsoll.domain.errors import InvalidInput

_ADD = re.compile(r"\+\s*(\d{1,4})\s+(\S+?)(?:\s+x\s*(\d{1,3}))?")
_REMOVE = re.compile(r"-\s*(\S+)")
_SET = re.compile(r"(?:([a-z0-9-]+)/)?([a-z0-9-]+)\.([A-Za-z0-9.]+)=(.*)", re.DOTALL)
_FIX = (
    'Write "+2 h100-sxm-80gb x8" for two nodes of eight GPUs, "-l40s-48gb" for no nodes of that type, or '
    '"NAME.FIELD=VALUE" for another value in a spec, e.g. "llama-70b.replicas=3".'
)


def what_if_of(texts: Sequence[str]) -> tuple[WhatIf, ...]:
    """Read every value of the option. Raises :class:`InvalidInput`."""
    return tuple(_one(text.strip()) for text in texts)


def what_if_notes(texts: Sequence[str]) -> tuple[str, ...]:
    """Say how names of GPU types were read that fit several. Raises :class:`InvalidInput`."""
    added = (found for text in texts if (found := _ADD.fullmatch(text.strip())))
    return tuple(dict.fromkeys(note for found in added for note in _added_type(found.group(2), found.group()).notes))


def _one(text: str) -> WhatIf:
    if added := _ADD.fullmatch(text):
        count, gpu_type, gpus = added.groups()
        return AddNodes(int(count), _added_type(gpu_type, text).types[0], int(gpus or 1))
    if removed := _REMOVE.fullmatch(text):
        return RemoveNodes(_removed_type(removed.group(1), text))
    if changed := _SET.fullmatch(text):
        namespace, name, path, value = changed.groups()
        parts = path.removeprefix("spec.").split(".")
        if all(parts):
            return SetField(namespace or "", name, tuple(parts), _value(value, text), text)
    raise InvalidInput("--what-if", text, _FIX)


def _value(text: str, whole: str) -> object:
    """The value as YAML; nothing removes the field."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput("--what-if", whole, "Write the value as in YAML.") from error


def _added_type(name: str, text: str) -> Meant:
    """Return a type of the catalogue: its name, a beginning that only one name has, or a name as people write it."""
    matching = _beginning_with(name)
    if len(matching) == 1:
        return Meant(matching)
    try:
        return meant_types([name], "--what-if")
    except InvalidInput as error:
        raise InvalidInput("--what-if", text, _listed(matching)) from error


def _removed_type(name: str, text: str) -> str:
    """Return a type of the catalogue: its name, or a beginning that only one name has. Nothing is assumed."""
    matching = _beginning_with(name)
    if len(matching) != 1:
        raise InvalidInput("--what-if", text, _listed(matching))
    return matching[0]


def _beginning_with(name: str) -> tuple[str, ...]:
    names = [gpu.name for gpu in load_gpu_types() if not gpu.is_slice]
    return (name,) if name in names else tuple(each for each in names if each.startswith(f"{name}-"))


def _listed(matching: Sequence[str]) -> str:
    return f"Name one of {', '.join(matching)}." if matching else "`plimsoll gpus` lists the GPU types."
