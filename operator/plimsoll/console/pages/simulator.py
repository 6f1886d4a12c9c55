"""``/simulator``: what happens at this load? The answer is that of ``plimsoll simulate``."""

from __future__ import annotations

import json
import shlex
from typing import Any

from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.console.sources.commands import Ran
from plimsoll.console.views.simulator import MODES, Form, answer_of, form_of
from plimsoll.console.visit import Page, Visit


async def simulator(visit: Visit) -> Page:
    """The form; with a model and a GPU type in the URL also the answer."""
    form = form_of(visit.path, visit.first)
    models = catalogued_models()
    values: dict[str, Any] = {
        "form": form,
        "modes": MODES,
        "models": models,
        "gpus": tuple(gpu.name for gpu in load_gpu_types()),
        "answer": None,
        "problem": _refused(form, models),
        "command": shlex.join(["plimsoll", *form.arguments]),
    }
    if form.arguments and not values["problem"]:
        values |= _answered(await visit.commands.run(_as_json(form)))
    return Page("simulator.html", "Simulator", values, is_live=False)


def _refused(form: Form, models: tuple[str, ...]) -> str:
    """Return why a question is not asked. A name that is no catalogued model could be a file of this machine."""
    if not form.model or form.model in models:
        return ""
    return f"model: {form.model} is not in the catalogue. `plimsoll simulate` in a terminal takes any model."


def _as_json(form: Form) -> list[str]:
    command, *others = form.arguments
    return [command, "--output=json", *others]


def _answered(ran: Ran) -> dict[str, Any]:
    try:
        return {"answer": answer_of(json.loads(ran.out))}
    except ValueError:
        words = " ".join(line.strip() for line in ran.err.splitlines() if line.strip())
        return {"problem": _sentence(words) or f"The simulation ended with status {ran.status} and without an answer."}


def _sentence(words: str) -> str:
    """Return the error alone: click puts the usage of the command before it."""
    return words[words.index("rror: ") + len("rror: ") :] if "rror: " in words else words
