"""The calculator: a model, a load and GPU types in; the answers of ``plimsoll estimate`` out.

With them come the command and the manifest to copy, which ask what the form asks.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from plimsoll.adapters.catalog import load_model_facts
from plimsoll.adapters.hub.models import did_you_mean_model
from plimsoll.cli.answers.advice import advice_sentence
from plimsoll.cli.answers.engines import on_its_engine
from plimsoll.cli.answers.rows import AnsweredQuestion, answered
from plimsoll.cli.answers.sentences import headline
from plimsoll.cli.later import known_question
from plimsoll.cli.questions.api_price import with_api
from plimsoll.cli.questions.asked import EstimateQuestion, TypedOptions
from plimsoll.cli.questions.direct import plain_question
from plimsoll.cli.questions.manifest_options import manifest_about
from plimsoll.cli.questions.names import NamedSource, named_model
from plimsoll.cli.questions.other_engine import with_other_engine
from plimsoll.cli.split_words import split_options
from plimsoll.console.views.calculator.form import (
    NAMES,
    CalculatorForm,
    FormView,
    OptionKind,
    form_view,
    given,
    is_filled,
    read_form,
)
from plimsoll.console.views.calculator.rows import BIG_LENGTH, Detail, RowView, Shelf, detail_of, row_views
from plimsoll.console.views.faults import FieldFault, fault_of
from plimsoll.console.views.paging import Query
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.requests.serving import Request
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.placement.places.warnings import model_warnings


@dataclass(frozen=True, slots=True)
class AnswerView:
    """An answer. ``query`` is the URL's own question without GPU types, so that a row can ask about one type alone.

    ``file`` is the file that the command reads a pasted configuration from; None without one.
    """

    headline: str
    advice: str | None
    rows: tuple[RowView, ...]
    detail: Detail | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    command: str
    file: str | None
    manifest: str
    manifest_notes: tuple[str, ...]
    query: str

    def on(self, shelf: str) -> tuple[RowView, ...]:
        """Return the rows of one shelf."""
        return tuple(row for row in self.rows if row.shelf is Shelf(shelf))

    big_length: float = BIG_LENGTH

    def link(self, gpu: str) -> str:
        """Return the address of the same question about one GPU type."""
        return f"?{self.query}&{urlencode({'gpu': gpu})}"


@dataclass(frozen=True, slots=True)
class Calculator:
    """The page: the form, and an answer or the reason why there is none; neither if nothing is asked."""

    form: FormView
    answer: AnswerView | None = None

    @property
    def fault(self) -> FieldFault | None:
        """Why there is no answer; None if there is one, or if nothing is asked."""
        return self.form.fault


def calculator_of(query: Query, owned: frozenset[str] = frozenset()) -> Calculator:
    """Return the page of a URL. It takes up to a second for all GPU types.

    ``owned`` are the GPU types of the person's cluster, which come first; empty without one.
    """
    form = form_view(query, owned)
    if not is_filled(query):
        return Calculator(form)
    try:
        return Calculator(form, _view(query, owned))
    except PlimsollError as error:
        return Calculator(replace(form, fault=fault_of(str(error), NAMES)))


def answer_of(form: CalculatorForm, owned: frozenset[str] = frozenset()) -> AnsweredQuestion:
    """Return the answers to a form, as the command computes them. Raises :class:`PlimsollError`."""
    asked = form.asked
    question = replace(with_api(question_of(form), asked), owned=owned, gpus=asked.gpus, split=asked.split)
    question = on_its_engine(question)
    return answered(with_other_engine(question, asked, lambda other: question_of(replace(form, asked=other))))


def _view(query: Query, owned: frozenset[str]) -> AnswerView:
    form = read_form(query)
    answer = answer_of(form, owned)
    request, name = answer.question.request, answer.question.request.model.name
    detail = detail_of(answer)
    return AnswerView(
        headline=headline(request),
        advice=None if answer.is_alone else advice_sentence(request, answer.shown),
        rows=row_views(answer),
        detail=detail,
        notes=answer.notes,
        warnings=tuple(model_warnings(request)) if detail is None else detail.warnings,
        command=command_of(form, name, query),
        file=None if form.config is None else form.file,
        manifest=yaml_of(manifest_of(form, entry_of(form, name), request)),
        manifest_notes=tuple(manifest_notes(form.asked)),
        query=urlencode([(key, value) for key, values in query.items() if key != "gpu" for value in values if value]),
    )


def question_of(form: CalculatorForm) -> EstimateQuestion:
    """Return the question.

    Raises:
        InvalidInput: a field cannot be used.
        UnsupportedModel: the configuration has a part without a memory law.
    """
    named = named_model(form.model, "model") if form.config is None else NamedSource(form.model)
    facts = _facts(form, named.source)
    question = plain_question(facts, form.asked) or _checked(entry_of(form, named.source), facts, form.asked)
    return replace(question, notes=(*named.notes, *form.notes, *question.notes))


def entry_of(form: CalculatorForm, name: str) -> dict[str, Any]:
    """Return ``spec.model`` for the form's model."""
    return {"name": name} if form.config is None else {"name": name, "config": dict(form.config)}


def _facts(form: CalculatorForm, name: str) -> ModelFacts:
    if form.config is not None:
        return read_model_facts(name, form.config, revision=None, source=FactsSource.INLINE)
    return _catalogued(name, "model", "Paste its config.json instead.")


def _catalogued(name: str, field: str, otherwise: str) -> ModelFacts:
    facts = load_model_facts(name)
    if facts is None:
        raise InvalidInput(field, name, f"The catalogue does not hold it. {otherwise}{did_you_mean_model(name)}")
    return facts


def _checked(model: Mapping[str, Any], facts: ModelFacts, asked: TypedOptions) -> EstimateQuestion:
    """Return the question through a manifest, whose checks have the right words for every fault."""
    draft = None
    if asked.speculate is not None and asked.draft:
        draft = _catalogued(asked.draft, "--draft", "Name a catalogued model.")
    entry = None if draft is None else {"name": draft.name}
    return known_question(
        manifest_about(model, asked, entry), facts, draft, asked, shortens=asked.context_length is None
    )


_LONGEST_NAME = 53
_SPLIT = ("tp", "pp", "dp", "ep")
_TWO_WORDS = ("lora", "speculate")


def command_of(form: CalculatorForm, name: str, query: Query) -> str:
    """Return the command line that gives the same figures, quoted for a shell."""
    words = ["plimsoll", "estimate", form.file if form.config is not None else name]
    for option, text in given(query):
        if option.name in _SPLIT:
            continue
        words.append(option.flag)
        if option.kind is not OptionKind.FLAG:
            words += text.split() if option.name in _TWO_WORDS else [text]
    words += [] if form.asked.split is None else split_options(form.asked.split).split()
    words += [word for gpu in form.asked.gpus for word in ("--gpu", gpu)]
    return shlex.join(words)


def manifest_of(form: CalculatorForm, model: Mapping[str, Any], request: Request) -> dict[str, Any]:
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


def _placement(asked: TypedOptions) -> dict[str, Any]:
    """Return the GPU types and the split that are named. A manifest names no stages and no engines."""
    gpu = {"gpu": {"allow": list(asked.gpus)}} if asked.gpus else {}
    split = asked.split
    return gpu if split is None else {**gpu, "overrides": {"tensorParallel": split.tensor_parallel}}


def manifest_notes(asked: TypedOptions) -> Iterator[str]:
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
