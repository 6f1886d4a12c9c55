"""The questions of ``plimsoll estimate`` that use a manifest: the user's, or one made from a model and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from plimsoll.adapters.local_checkpoint import read_local_checkpoint
from plimsoll.api.convert import to_request
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import Sizing
from plimsoll.cli.asked import DEFAULT_CONCURRENCY, DEFAULT_CONTEXT, Asked, Question
from plimsoll.cli.context import draft_of, model_of
from plimsoll.cli.model_names import named
from plimsoll.cli.sources import config_file, document_of, name_of
from plimsoll.cli.types import named_on_the_command_line
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.domain.names import API_VERSION, KIND
from plimsoll.facts.models.config_json import read_model_facts


def question_for(source: str, asked: Asked) -> Question:
    """Return the question for a model's name, a checkpoint's folder, a ``config.json`` or a manifest.

    Raises:
        InvalidInput: the file or an option cannot be used.
        ModelNotFound: no source knows the model.
        UnsupportedModel: the model has a part without a memory law.
    """
    manifest = manifest_of(source, asked)
    resource = parse_inference_deployment(manifest)
    model = _checkpoint(Path(source)) if Path(source).is_dir() else model_of(resource)
    if _is_default(source, asked) and resource.spec.context_length > model.max_context_tokens:
        manifest["spec"]["contextLength"] = model.max_context_tokens
        resource = parse_inference_deployment(manifest)
    request = to_request(resource, model, draft=draft_of(resource))
    overrides, notes = named_on_the_command_line(request.overrides, asked.gpus, asked.split)
    return Question(replace(request, overrides=overrides), (*_sizing_note(source, asked), *notes))


def _sizing_note(source: str, asked: Asked) -> tuple[str, ...]:
    """A note if mean lengths on the command line override the manifest's sizing."""
    document = document_of(source) if asked.prompt is not None else None
    spec = {} if document is None or document.get("kind") != KIND else document.get("spec") or {}
    if spec.get("sizing") != Sizing.GUARANTEED.value:
        return ()
    return (
        "--prompt and --output-tokens size for the expected load: spec.sizing Guaranteed of the manifest is set aside.",
    )


def manifest_of(source: str, asked: Asked) -> dict[str, Any]:
    """Return the manifest of a question: the user's with the options in it, or one made from a model and options."""
    document = document_of(source)
    if document is not None and document.get("kind") == KIND:
        manifest = dict(document)
        spec = manifest.get("spec")
    else:
        manifest = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "estimate"}}
        model = {"name": source} if document is None else {"name": name_of(config_file(source)), "config": document}
        spec = {"model": model, "contextLength": DEFAULT_CONTEXT, "concurrency": DEFAULT_CONCURRENCY}
    manifest["spec"] = _with_options(spec, asked) if isinstance(spec, dict) else spec
    return manifest


def _checkpoint(folder: Path) -> ModelFacts:
    """Facts of a downloaded checkpoint: its configuration, and the tensors that its files really contain."""
    config, tensors = read_local_checkpoint(folder)
    name = name_of(folder / "config.json")
    return read_model_facts(name, config, revision=None, source=FactsSource.INLINE, tensors=tensors)


def _is_default(source: str, asked: Asked) -> bool:
    """Whether neither the command line nor a manifest sets the context."""
    document = document_of(source) if asked.context is None else None
    return asked.context is None and (document is None or document.get("kind") != KIND)


def _with_options(spec: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """The spec with the values that the command line sets."""
    engine = {
        "version": asked.engine,
        "gpuMemoryUtilizationPercent": asked.utilization,
        "maxBatchedTokens": asked.batched_tokens,
        "enforceEager": asked.eager or None,
        "textOnly": asked.text_only or None,
        "cpuOffload": asked.cpu_offload,
        "lora": None if asked.lora is None else {"maxAdapters": asked.lora[0], "maxRank": asked.lora[1]},
        "speculation": _speculation(asked),
    }
    means = _both({"prompt": asked.prompt, "output": asked.output})
    changes = {
        "contextLength": asked.context,
        "concurrency": asked.concurrency,
        "precision": asked.precision,
        "kvCache": None if asked.kv_precision is None else {"precision": asked.kv_precision},
        "expectedTokens": means,
        "sizing": None if means is None else Sizing.EXPECTED.value,
    }
    changed = {key: value for key, value in changes.items() if value is not None}
    own = {key: value for key, value in engine.items() if value is not None}
    engines = spec.get("engine") or {}
    return {**spec, **changed, "engine": {**engines, **own} if isinstance(engines, dict) else engines}


def _both(expected: Mapping[str, int | None]) -> Mapping[str, int | None] | None:
    """The mean lengths; None if none is given. One alone raises :class:`InvalidInput`."""
    missing = [name for name, tokens in expected.items() if tokens is None]
    if len(missing) == 1:
        given = {"prompt": "--output-tokens", "output": "--prompt"}
        raise InvalidInput(
            given[missing[0]], max(filter(None, expected.values())), "Name --prompt and --output-tokens."
        )
    return None if missing else expected


def _speculation(asked: Asked) -> dict[str, Any] | None:
    """The spec's entry for speculative decoding; the draft is a name or a ``config.json``."""
    if asked.speculate is None:
        if asked.draft is not None:
            raise InvalidInput("--draft", asked.draft, "Say how it drafts, e.g. --speculate Eagle 3.")
        return None
    method, tokens = asked.speculate
    entry: dict[str, Any] = {"method": method, "tokens": tokens}
    return entry if asked.draft is None else {**entry, "draftModel": _named(asked.draft)}


def _named(source: str) -> dict[str, Any]:
    source = named(source, "--draft").source
    document = document_of(source, "--draft")
    return {"name": source} if document is None else {"name": name_of(config_file(source)), "config": document}
