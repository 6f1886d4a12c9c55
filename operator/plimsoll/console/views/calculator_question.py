"""The question of a form: about a catalogued model or a pasted configuration. It reads no file and asks no hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plimsoll.adapters.catalog import load_model_facts
from plimsoll.adapters.similar_models import did_you_mean_model
from plimsoll.cli.asked import Asked, Question
from plimsoll.cli.direct import plain_question
from plimsoll.cli.later import known_question
from plimsoll.cli.manifest_options import manifest_about
from plimsoll.cli.model_names import Named, named_model
from plimsoll.console.views.calculator_form import Form
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.facts.models.config_json import read_model_facts


def question_of(form: Form) -> Question:
    """Return the question.

    Raises:
        InvalidInput: a field cannot be used.
        UnsupportedModel: the configuration has a part without a memory law.
    """
    named = _named(form)
    facts = _facts(form, named.source)
    question = plain_question(facts, form.asked) or _checked(entry_of(form, named.source), facts, form.asked)
    return replace(question, notes=(*named.notes, *form.notes, *question.notes))


def entry_of(form: Form, name: str) -> dict[str, Any]:
    """Return ``spec.model`` for the form's model."""
    return {"name": name} if form.config is None else {"name": name, "config": dict(form.config)}


def _named(form: Form) -> Named:
    return named_model(form.model, "model") if form.config is None else Named(form.model)


def _facts(form: Form, name: str) -> ModelFacts:
    if form.config is not None:
        return read_model_facts(name, form.config, revision=None, source=FactsSource.INLINE)
    return _catalogued(name, "model", "Paste its config.json instead.")


def _catalogued(name: str, field: str, otherwise: str) -> ModelFacts:
    facts = load_model_facts(name)
    if facts is None:
        raise InvalidInput(field, name, f"The catalogue does not hold it. {otherwise}{did_you_mean_model(name)}")
    return facts


def _checked(model: Mapping[str, Any], facts: ModelFacts, asked: Asked) -> Question:
    """Return the question through a manifest, whose checks have the right words for every fault."""
    drafts = asked.speculate is not None and asked.draft is not None
    draft = _catalogued(asked.draft, "--draft", "Name a catalogued model.") if drafts and asked.draft else None
    entry = None if draft is None else {"name": draft.name}
    return known_question(manifest_about(model, asked, entry), facts, draft, asked, shortens=asked.context is None)
