"""The command and the manifest to copy: they ask what the form asks."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.cli.questions.asked import Asked
from plimsoll.cli.questions.manifest_options import manifest_about
from plimsoll.cli.split_words import split_options
from plimsoll.console.views.calculator.form import Form, Kind, given
from plimsoll.console.views.paging import Query
from plimsoll.domain.requests.serving import Request

_LONGEST_NAME = 53
_SPLIT = ("tp", "pp", "dp", "ep")
_TWO_WORDS = ("lora", "speculate")


def command_of(form: Form, name: str, query: Query) -> str:
    """Return the command line that gives the same figures, quoted for a shell."""
    words = ["plimsoll", "estimate", form.file if form.config is not None else name]
    for option, text in given(query):
        if option.name in _SPLIT:
            continue
        words.append(option.flag)
        if option.kind is not Kind.FLAG:
            words += text.split() if option.name in _TWO_WORDS else [text]
    words += [] if form.asked.split is None else split_options(form.asked.split).split()
    words += [word for gpu in form.asked.gpus for word in ("--gpu", gpu)]
    return shlex.join(words)


def manifest_of(form: Form, model: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """Return an InferenceDeployment with the form's load and options. The context is written out."""
    draft = {"name": form.asked.draft} if form.asked.draft else None
    manifest = manifest_about(model, form.asked, draft)
    spec = {**manifest["spec"], "contextLength": request.shape.context_tokens}
    spec = {key: value for key, value in spec.items() if value != {}}
    return {
        **manifest,
        "metadata": {"name": object_name(str(model["name"]))},
        "spec": {**spec, **_placement(form.asked)},
    }


def _placement(asked: Asked) -> dict[str, Any]:
    """Return the GPU types and the split that are named. A manifest names no stages and no engines."""
    gpu = {"gpu": {"allow": list(asked.gpus)}} if asked.gpus else {}
    split = asked.split
    return gpu if split is None else {**gpu, "overrides": {"tensorParallel": split.tensor_parallel}}


def manifest_notes(asked: Asked) -> Iterator[str]:
    """Say what of a split the manifest leaves out."""
    if asked.split is not None and asked.split.gpus > asked.split.tensor_parallel:
        yield "The manifest names the tensor-parallel degree alone: the planner chooses stages and engines."


def object_name(model: str) -> str:
    """Return a name for the object: the model's title as Kubernetes takes it."""
    title = model.rpartition("/")[2].lower()
    return re.sub(r"[^a-z0-9]+", "-", title)[:_LONGEST_NAME].strip("-") or "model"


def yaml_of(value: Mapping[str, Any]) -> str:
    """Return a mapping as YAML: blocks of keys, with every other value as JSON, which is YAML too."""
    return "\n".join(_lines(value, ""))


def _lines(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, entry in value.items():
        if isinstance(entry, dict) and entry and key != "config":
            yield f"{indent}{key}:"
            yield from _lines(entry, f"{indent}  ")
        else:
            yield f"{indent}{key}: {_scalar(entry)}"


_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9./_-]*")
_NOT_TEXT = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")


def _scalar(value: Any) -> str:
    """Return a value as JSON; a word that YAML reads as the same text stands without quotes."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return json.dumps(value)
