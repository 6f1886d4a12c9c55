"""``/simulator`` and ``/what-if``: pages whose answer is that of a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.sources.commands import Ran
from plimsoll.console.views import simulator as simulation
from plimsoll.console.views.what_if import answer_of
from plimsoll.console.visit import ConsolePage, Visit

_UNUSABLE = 2
_CHANGES_AT_MOST = 20


async def simulator(visit: Visit) -> ConsolePage:
    """The form; with a model and a GPU type in the URL also the answer."""
    form = simulation.form_of(visit.path, visit.first)
    models = catalogued_models()
    values: dict[str, Any] = {
        "form": form,
        "modes": simulation.MODES,
        "models": models,
        "gpus": tuple(gpu.name for gpu in load_gpu_types()),
        "answer": None,
        "problem": _refused(form, models),
        "command": shlex.join(["plimsoll", *form.arguments]),
    }
    if form.arguments and not values["problem"]:
        command, *others = form.arguments
        values |= _answered(await visit.tools.commands.run([command, "--output=json", *others]))
    return ConsolePage("simulator.html", "Simulator", values, is_live=False)


def _refused(form: simulation.SimulatorForm, models: tuple[str, ...]) -> str:
    """Return why a question is not asked. A name that is no catalogued model could be a file of this machine."""
    if not form.model or form.model in models:
        return ""
    return f"model: {form.model} is not in the catalogue. `plimsoll simulate` in a terminal takes any model."


def _answered(ran: Ran) -> dict[str, Any]:
    try:
        return {"answer": simulation.answer_of(json.loads(ran.out))}
    except ValueError:
        words = " ".join(line.strip() for line in ran.err.splitlines() if line.strip())
        return {"problem": _sentence(words) or f"The simulation ended with status {ran.status} and without an answer."}


def _sentence(words: str) -> str:
    """Return the error alone: click puts the usage of the command before it."""
    return words[words.index("rror: ") + len("rror: ") :] if "rror: " in words else words


async def what_if(visit: Visit) -> ConsolePage:
    """The form; with a question in the URL or in the form also the answer."""
    manifest = visit.form.get("manifest", "").strip()
    changes, fleet = _changes(visit), visit.world.fleet
    values: dict[str, Any] = {
        "manifest": manifest,
        "changes": changes,
        "namespace": visit.form.get("namespace", "").strip() or visit.first("namespace"),
        "types": () if fleet is None else tuple(gpu.name for gpu in fleet.gpu_types()),
        "answer": None,
        "problem": "",
        "command": "",
    }
    if manifest or changes:
        arguments = list(_arguments(manifest, changes, values["namespace"]))
        ran = await visit.tools.commands.run([*arguments, "-o", "json", *_access(visit)], manifest, visit.bearer)
        to_copy = ["deployment.yaml" if each == "-" else each for each in arguments]
        values |= _answer(ran) | {"command": shlex.join(["plimsoll", *to_copy])}
    return ConsolePage("what_if.html", "What if", values, is_live=False)


def _changes(visit: Visit) -> tuple[str, ...]:
    """Return the changes of the form, one a line, or those of the URL."""
    lines = visit.form["changes"].splitlines() if "changes" in visit.form else visit.query.get("change", ())
    found = tuple(line.strip() for line in lines if line.strip())
    if len(found) > _CHANGES_AT_MOST:
        raise ConsoleRefusal(
            422, "TooManyChanges", f"{len(found)} changes are too many.", f"Give at most {_CHANGES_AT_MOST}."
        )
    return found


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
        return {"problem": _sentences(ran.err) or f"The plan ended with status {ran.status} and without an answer."}
    problem = _sentences(ran.err) if ran.status == _UNUSABLE else ""
    return {"answer": answer_of(document), "problem": problem}


def _sentences(text: str) -> str:
    """Return the errors of a command, without the word and without notes."""
    lines = (line.strip() for line in text.splitlines())
    return " ".join(line.removeprefix("error: ") for line in lines if line and not line.startswith("note:"))
