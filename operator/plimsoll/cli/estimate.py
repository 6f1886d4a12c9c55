"""The questions of ``plimsoll estimate`` that use a manifest: the user's, or one made from a model and options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from plimsoll.adapters.local_checkpoint import read_local_checkpoint
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import Sizing
from plimsoll.cli.asked import Asked, Question
from plimsoll.cli.context import draft_of, model_of
from plimsoll.cli.manifest_options import manifest_about, with_options
from plimsoll.cli.manifest_question import manifest_question
from plimsoll.cli.model_names import named
from plimsoll.cli.sources import config_file, document_of, name_of
from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.domain.names import KIND
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
    question = manifest_question(manifest, model, draft_of(resource), asked, shortens=_is_default(source, asked))
    return replace(question, notes=(*_sizing_note(source, asked), *question.notes))


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
    draft = None if asked.speculate is None or asked.draft is None else _named(asked.draft)
    if document is None:
        return manifest_about({"name": source}, asked, draft)
    if document.get("kind") != KIND:
        return manifest_about({"name": name_of(config_file(source)), "config": document}, asked, draft)
    spec = document.get("spec")
    return {**document, "spec": with_options(spec, asked, draft) if isinstance(spec, dict) else spec}


def _checkpoint(folder: Path) -> ModelFacts:
    """Facts of a downloaded checkpoint: its configuration, and the tensors that its files really contain."""
    config, tensors = read_local_checkpoint(folder)
    name = name_of(folder / "config.json")
    return read_model_facts(name, config, revision=None, source=FactsSource.INLINE, tensors=tensors)


def _is_default(source: str, asked: Asked) -> bool:
    """Whether neither the command line nor a manifest sets the context."""
    document = document_of(source) if asked.context is None else None
    return asked.context is None and (document is None or document.get("kind") != KIND)


def _named(source: str) -> dict[str, Any]:
    source = named(source, "--draft").source
    document = document_of(source, "--draft")
    return {"name": source} if document is None else {"name": name_of(config_file(source)), "config": document}
