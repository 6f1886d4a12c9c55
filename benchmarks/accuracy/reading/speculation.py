"""The speculative decoding that a record names, under all spellings of flags and records.

Source: vLLM's ``engine/arg_utils.py`` (``--speculative-config``, ``-sc``, ``--spec-method``, ``--spec-model``,
``--spec-tokens``; before 0.9 ``--speculative-model`` and ``--num-speculative-tokens``) and ``config/speculative.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MTP, NGRAM, DRAFT_MODEL, UNKNOWN = "mtp", "ngram", "draft_model", "unknown"
"""Methods that the estimate follows, with the prediction layers of all families as one; and a method nobody stated."""

_WITHOUT_WEIGHTS = ("ngram", "suffix")
_BY_NAME = ("eagle3", "eagle", "medusa", "mlp_speculator", "dflash", "dspark")
"""Methods that the engine reads from the name of the draft where no method is given."""

_KEYS = {
    "method": ("method", "spec_method", "speculative_method", "speculative_config.method", "sc.method"),
    "tokens": (
        "num_speculative_tokens",
        "spec_tokens",
        "speculative_tokens",
        "speculative_num_tokens",
        "speculative_config.num_speculative_tokens",
        "sc.num_speculative_tokens",
    ),
    "model": ("spec_model", "speculative_model", "draft_model", "speculative_config.model", "sc.model"),
}
_WHOLE = ("speculative_config", "sc", "speculative", "speculation", "speculative_decoding", "spec_decode")
"""Keys whose value holds everything: an object, its JSON, or the method alone."""

FIELDS = (*_WHOLE, MTP, *(key for keys in _KEYS.values() for key in keys if key not in ("method", "draft_model")))
"""Keys under which a record may state it next to its other fields."""

_OFF = ("", "false", "none", "null", "no", "off", "0", "disabled")
_SWITCHED_ON = ("true", "yes", "on", "enabled")
_FLAG = re.compile(r"(?:^|\s)--?((?:spec|num[-_]spec)[\w.-]*|sc(?:\.[\w-]+)?)[\s=\\]+")


@dataclass(frozen=True, slots=True)
class Drafting:
    """The method, the tokens that a step drafts and the draft's name; None where the record does not say them."""

    method: str
    tokens: int | None
    model: str | None = None


def drafting_of(flags: Mapping[str, Any]) -> Drafting | None:
    """Return what the flags of a record say, with a command line under ``cli``; None where nothing is drafted."""
    stated: dict[str, Any] = {}
    for key, value in (*flags.items(), *_from_command(str(flags.get("cli", "")))):
        _add(stated, _plain(key), value)
    if not stated:
        return None
    tokens, model = _number(stated.get("tokens")), stated.get("model")
    if tokens == 0:
        return None
    name = None if model is None else str(model)
    return Drafting(_method(stated.get("method"), name), tokens, name)


def _add(stated: dict[str, Any], key: str, value: Any) -> None:
    if isinstance(value, bool) or value is None:
        if value and key in (*_WHOLE, MTP):
            stated.setdefault("method", MTP if key == MTP else UNKNOWN)
        return
    if key in _WHOLE:
        _add_whole(stated, value)
        return
    for part, names in _KEYS.items():
        if key in names and key != "method" and (part == "tokens" or str(value).strip().lower() not in _OFF):
            stated[part] = value


def _add_whole(stated: dict[str, Any], value: Any) -> None:
    """Take over an object, its JSON, or a text that names the method alone."""
    whole = value if isinstance(value, Mapping) else _object(str(value))
    if whole is not None:
        parts = {part: next((whole[key] for key in whole if _plain(key) in names), None) for part, names in _INNER}
        stated.update({part: found for part, found in parts.items() if found is not None})
        stated.setdefault("method", None)
    elif (text := str(value).strip().strip("'\"").lower()) not in _OFF:
        stated["method"] = UNKNOWN if text in _SWITCHED_ON else text


_INNER = (*((part, names) for part, names in _KEYS.items() if part != "model"), ("model", ("model", *_KEYS["model"])))


def _object(text: str) -> Mapping[str, Any] | None:
    """Return the fields of a JSON object, also of one that has lost its quotes; None if it is none."""
    found = re.search(r"\{.*\}", text, re.DOTALL)
    if found is None:
        return None
    try:
        read = json.loads(found[0].replace("\\", ""))
    except ValueError:
        pairs = re.findall(r"[\"']?([\w.-]+)[\"']?\s*:\s*[\"']?([^\s,\"'}]+)", found[0])
        return dict(pairs)
    return read if isinstance(read, Mapping) else None


def _from_command(text: str) -> list[tuple[str, str]]:
    """Return the flags about speculation of a command line with their values."""
    return [(flag[1], _value(text[flag.end() :])) for flag in _FLAG.finditer(text)]


def _value(rest: str) -> str:
    """Return what stands behind a flag: an object with its braces, or one word."""
    if "{" in rest[:3]:
        return _braced(rest)
    words = rest.split(maxsplit=1)
    return words[0].strip("'\"") if words else ""


def _braced(text: str) -> str:
    """Return the text up to the brace that closes the first one."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if letter == "}" and depth == 0:
            return text[: place + 1]
    return text


def _method(stated: Any, model: str | None) -> str:
    """Return the method by its usual name; the engine reads it from the draft's name where none is stated."""
    text = str(stated or "").strip().lower()
    if text in ("", UNKNOWN):
        text = _method_of(model)
    if MTP in text:
        return MTP
    return NGRAM if text.strip("[]").startswith(_WITHOUT_WEIGHTS) else text


def _method_of(model: str | None) -> str:
    if model is None:
        return UNKNOWN
    name = model.lower()
    if name.strip("[]").startswith(_WITHOUT_WEIGHTS):
        return NGRAM
    return next((method for method in _BY_NAME if method in name), DRAFT_MODEL)


def _number(value: Any) -> int | None:
    found = re.match(r"\d+", str(value).strip())
    return int(found[0]) if found else None


def _plain(key: str) -> str:
    return key.strip().lstrip("-").replace("-", "_").lower()
