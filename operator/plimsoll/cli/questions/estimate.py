"""The questions of ``plimsoll estimate`` that use a manifest: the user's, or one made from a model and options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from plimsoll.api.parse import parse_inference_deployment
from plimsoll.api.v1alpha1 import Sizing
from plimsoll.cli.context import Models
from plimsoll.cli.questions.asked import EstimateQuestion, TypedOptions
from plimsoll.cli.questions.manifest_options import manifest_about, with_options
from plimsoll.cli.questions.manifest_question import manifest_question
from plimsoll.cli.questions.names import named
from plimsoll.cli.questions.sources import checkpoint_facts, config_file, document_of, name_of
from plimsoll.domain.kubernetes_names import KIND


def question_for(source: str, asked: TypedOptions, read: dict[str, Any] | None = None) -> EstimateQuestion:
    """Return the question for a model's name, a checkpoint's folder, a ``config.json`` or a manifest.

    ``read`` is an InferenceDeployment that was read already; then the source is empty.

    Raises:
        InvalidInput: the file or an option cannot be used.
        ModelNotFound: no source knows the model.
        UnsupportedModel: the model has a part without a memory law.
    """
    document = document_of(source) if read is None else read
    manifest = _manifest(source, document, asked)
    resource, models = parse_inference_deployment(manifest), Models()
    is_folder = read is None and Path(source).is_dir()
    model = checkpoint_facts(Path(source)) if is_folder else models.of(resource)
    is_own = _is_manifest(document)
    shortens = asked.context_length is None and not is_own
    draft = models.draft_of(resource)
    question = manifest_question(manifest, model, draft, asked, shortens=shortens, is_own=is_own)
    return replace(question, notes=(*_sizing_note(document, asked), *question.notes))


def _is_manifest(document: dict[str, Any] | None) -> bool:
    return document is not None and document.get("kind") == KIND


def _sizing_note(document: dict[str, Any] | None, asked: TypedOptions) -> tuple[str, ...]:
    spec = None if document is None or not _is_manifest(document) else document.get("spec")
    if asked.prompt is None or not isinstance(spec, dict) or spec.get("sizing") != Sizing.GUARANTEED.value:
        return ()
    return (
        "--prompt and --output-tokens size for the expected load: spec.sizing Guaranteed of the manifest is set aside.",
    )


def manifest_of(source: str, asked: TypedOptions) -> dict[str, Any]:
    """Return the manifest of a question: the user's with the options in it, or one made from a model and options."""
    return _manifest(source, document_of(source), asked)


def _manifest(source: str, document: dict[str, Any] | None, asked: TypedOptions) -> dict[str, Any]:
    draft = None if asked.speculate is None or asked.draft is None else _named(asked.draft)
    if document is None:
        return manifest_about({"name": source}, asked, draft)
    if not _is_manifest(document):
        return manifest_about({"name": name_of(config_file(source)), "config": document}, asked, draft)
    spec = document.get("spec")
    return {**document, "spec": with_options(spec, asked, draft) if isinstance(spec, dict) else spec}


def _named(source: str) -> dict[str, Any]:
    source = named(source, "--draft").source
    document = document_of(source, "--draft")
    return {"name": source} if document is None else {"name": name_of(config_file(source)), "config": document}
