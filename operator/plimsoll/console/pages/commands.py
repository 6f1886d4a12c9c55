"""``/simulator`` and ``/what-if``: pages whose answer is that of a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.cli.answers.rows import types_in_order
from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.sources.commands import Ran
from plimsoll.console.views import simulator as simulation
from plimsoll.console.views.faults import FieldFault, fault_of
from plimsoll.console.views.what_if import answer_of
from plimsoll.console.views.what_if_form import NAMES, form_of
from plimsoll.console.visit import ConsolePage, Visit

_UNUSABLE = 2
_CHANGES_AT_MOST = 20


async def simulator(visit: Visit) -> ConsolePage:
    """The form; with a model and a GPU type in the URL also the answer."""
    page = simulator_form(visit)
    form = page.values["form"]
    if not form.arguments or page.values["fault"]:
        return page
    command, *others = form.arguments
    ran = await visit.tools.commands.run([command, "--output=json", *others])
    return replace(page, values={**page.values, **_answered(ran)})


def simulator_form(visit: Visit) -> ConsolePage:
    """The form without an answer, and what cannot be asked."""
    form, models = simulation.form_of(visit.path, visit.first), catalogued_models()
    values: dict[str, Any] = {
        "form": form,
        "modes": simulation.MODES,
        "models": models,
        "gpus": tuple(gpu.name for gpu in types_in_order(load_gpu_types(), visit.world.gpu_types)),
        "answer": None,
        "fault": _refused(form, models),
        "command": shlex.join(["plimsoll", *form.arguments]),
    }
    return ConsolePage("simulator.html", "Simulator", values, is_live=False)


def _refused(form: simulation.SimulatorForm, models: tuple[str, ...]) -> FieldFault | None:
    """Return why a question is not asked. A name that is no catalogued model could be a file of this machine."""
    if not form.model or form.model in models:
        return None
    words = f"Model: {form.model} is not in the catalogue. `plimsoll simulate` in a terminal takes any model."
    return FieldFault("model", words)


def _answered(ran: Ran) -> dict[str, Any]:
    try:
        return {"answer": simulation.answer_of(json.loads(ran.out))}
    except ValueError:
        words = " ".join(line.strip() for line in ran.err.splitlines() if line.strip())
        said = _sentence(words) or f"The simulation ended with status {ran.status} and without an answer."
        return {"fault": fault_of(said, simulation.NAMES)}


def _sentence(words: str) -> str:
    """Return the error alone: click puts the usage of the command before it."""
    return words[words.index("rror: ") + len("rror: ") :] if "rror: " in words else words


async def what_if(visit: Visit) -> ConsolePage:
    """The form; with a question in the URL or in the form also the answer."""
    page = what_if_form(visit)
    form = page.values["form"]
    if not form.is_asked:
        return page
    arguments = list(_arguments(form.manifest, form.changes, form.namespace))
    ran = await visit.tools.commands.run([*arguments, "-o", "json", *_access(visit)], form.manifest, visit.bearer)
    to_copy = shlex.join(["plimsoll", *("deployment.yaml" if each == "-" else each for each in arguments)])
    return replace(page, values={**page.values, **_answer(ran), "command": to_copy})


def what_if_form(visit: Visit) -> ConsolePage:
    """The form without an answer."""
    lines = visit.form["changes"].splitlines() if "changes" in visit.form else visit.query.get("change", ())
    namespace = visit.form.get("namespace", "").strip() or visit.first("namespace")
    form = form_of(visit.form, lines, namespace, visit.world, load_gpu_types())
    if len(form.changes) > _CHANGES_AT_MOST:
        raise ConsoleRefusal(
            422, "TooManyChanges", f"{len(form.changes)} changes are too many.", f"Give at most {_CHANGES_AT_MOST}."
        )
    values = {"form": form, "fault": form.fault, "answer": None, "command": ""}
    return ConsolePage("what_if.html", "What if", values, is_live=False)


def _arguments(manifest: str, changes: tuple[str, ...], namespace: str) -> Iterator[str]:
    yield "plan"
    if manifest:
        yield from ("-f", "-")
        if namespace:
            yield f"--namespace={namespace}"
    yield from (f"--what-if={change}" for change in changes)


def _access(visit: Visit) -> Iterator[str]:
    """Return how the command reaches the cluster. It must not write, not even as a dry run, in a read-only console."""
    settings = visit.tools.settings
    if settings.kubeconfig and visit.bearer is None:
        yield f"--kubeconfig={settings.kubeconfig}"
    if settings.context and visit.bearer is None:
        yield f"--context={settings.context}"
    if not settings.allow_approvals:
        yield "--no-dry-run"


def _answer(ran: Ran) -> dict[str, Any]:
    try:
        document = json.loads(ran.out)
    except ValueError:
        said = _sentences(ran.err) or f"The plan ended with status {ran.status} and without an answer."
        return {"fault": fault_of(said, NAMES)}
    said = _sentences(ran.err) if ran.status == _UNUSABLE else ""
    return {"answer": answer_of(document), "fault": fault_of(said, NAMES) if said else None}


def _sentences(text: str) -> str:
    """Return the errors of a command, without the word and without notes."""
    lines = (line.strip() for line in text.splitlines())
    return " ".join(line.removeprefix("error: ") for line in lines if line and not line.startswith("note:"))
