"""The option ``--what-if``: text to values."""

from __future__ import annotations

import re
from collections.abc import Sequence

import yaml

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.app.review.values import AddNodes, RemoveNodes, SetField, WhatIf
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


def _one(text: str) -> WhatIf:
    if added := _ADD.fullmatch(text):
        count, gpu_type, gpus = added.groups()
        return AddNodes(int(count), _gpu_type(gpu_type, text), int(gpus or 1))
    if removed := _REMOVE.fullmatch(text):
        return RemoveNodes(_gpu_type(removed.group(1), text))
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


def _gpu_type(name: str, text: str) -> str:
    """A type of the catalogue: its name, or a beginning that only one name has."""
    names = [gpu.name for gpu in load_gpu_types() if not gpu.is_slice]
    if name in names:
        return name
    matching = [each for each in names if each.startswith(f"{name}-")]
    if len(matching) == 1:
        return matching[0]
    fix = f"Name one of {', '.join(matching)}." if matching else "`plimsoll gpus` lists the GPU types."
    raise InvalidInput("--what-if", text, fix)
