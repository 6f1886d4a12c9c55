"""``plimsoll init``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from plimsoll.api.bounds import OBJECTIVES, USUAL_OBJECTIVE
from plimsoll.cli.later import checked_manifest, manifest_text, name_for
from plimsoll.cli.options import complete_model, option
from plimsoll.cli.questions.asked import DEFAULT_CONCURRENCY, DEFAULT_CONTEXT
from plimsoll.cli.questions.names import named_model
from plimsoll.cli.reading.files import STDIN
from plimsoll.cli.screen import say
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.kubernetes_names import API_VERSION, KIND

_QUESTIONS = {
    "model": "Model (owner/name on the Hugging Face Hub)",
    "context_length": "Longest request in tokens, prompt and answer together",
    "concurrency": "Requests that one replica serves at the same time",
    "objective": f"How much speed is worth ({', '.join(OBJECTIVES)})",
}
_USUAL: Mapping[str, Any] = {
    "context_length": DEFAULT_CONTEXT,
    "concurrency": DEFAULT_CONCURRENCY,
    "objective": USUAL_OBJECTIVE,
}


@click.command("init")
@click.argument("model", required=False, shell_complete=complete_model)
@option("--context-length", note="Default: 8192.")
@option("--concurrency")
@option("--objective", words=OBJECTIVES, note=f"Default: {USUAL_OBJECTIVE}.")
@option("--name")
@option("--save", note="- prints it.", default="deployment.yaml", show_default=True)
def command(name: str | None, save: str, **given: Any) -> None:
    """Write a manifest: an InferenceDeployment for MODEL.

    In a terminal it asks for what the options leave out; elsewhere the defaults hold, and MODEL must be named. Each
    answer is checked as the API server would. No file is overwritten.
    """
    if save != STDIN and Path(save).exists():
        fix = "The file is there, and nothing is overwritten: name another one with --save, or move it away."
        raise InvalidInput("--save", save, fix)
    ask = _asked if sys.stdin.isatty() else _usual
    answers: dict[str, Any] = {}
    for field in _QUESTIONS:
        answers[field] = _checked(answers, field, given[field]) if given[field] is not None else ask(answers, field)
    body = _body(answers, name)
    checked_manifest(body)
    _write(save, manifest_text(body))


def _usual(answers: Mapping[str, Any], field: str) -> Any:
    """Return the default of a question that nobody is there to answer."""
    if field not in _USUAL:
        raise PlimsollError("The model is missing, and without a terminal nothing is asked: plimsoll init MODEL.")
    return _checked(answers, field, _USUAL[field])


def _asked(answers: Mapping[str, Any], field: str) -> Any:
    """Ask until the answer can be used, and say each time why it cannot."""
    while True:
        typed = str(click.prompt(_QUESTIONS[field], default=_USUAL.get(field), type=str, err=True))
        try:
            return _checked(answers, field, _READ.get(field, str.strip)(typed))
        except PlimsollError as error:
            say("error", (str(error),))


def _number(typed: str) -> int | str:
    """Return a whole number as people write it; other text as it is, so that the check refuses it."""
    plain = typed.strip().replace(",", "").replace("_", "")
    return int(plain) if plain.isascii() and plain.isdecimal() else typed.strip()


_READ: Mapping[str, Callable[[str], Any]] = {"context_length": _number, "concurrency": _number}


def _checked(answers: Mapping[str, Any], field: str, value: Any) -> Any:
    """Return an answer that can be used with those before it. Raises :class:`PlimsollError`."""
    if field == "model":
        source = named_model(str(value))
        say("note", source.notes)
        value = source.source
    usual = {"context_length": 1, "concurrency": 1}
    checked_manifest(_body({**usual, **answers, field: value}, None))
    return value


def _body(answers: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    fields = {"contextLength": "context_length", "concurrency": "concurrency", "objective": "objective"}
    spec = {field: answers[each] for field, each in fields.items() if each in answers}
    head = {"name": name_for(answers["model"]) if name is None else name}
    model = {"model": {"name": answers["model"]}}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": head, "spec": {**model, **spec}}


def _write(save: str, text: str) -> None:
    if save == STDIN:
        click.echo(text, nl=False)
        return
    try:
        with Path(save).open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InvalidInput("--save", save, f"It cannot be written: {error}.") from error
    click.echo(f"{save} is written. Its need: plimsoll estimate {save}. Its place: plimsoll plan -f {save}.")
