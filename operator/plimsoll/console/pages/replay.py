"""``/deployments/NAMESPACE/NAME/replay``: what mode Auto would have done in the last hours or days."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from plimsoll.console.sources.commands import Ran
from plimsoll.console.views.faults import fault_of
from plimsoll.console.views.paging import is_key
from plimsoll.console.views.replay import SPANS, answer_of
from plimsoll.console.visit import ConsolePage, Visit
from plimsoll.domain.kubernetes_names import ObjectKey

_MISSING = 404


async def replayed(visit: Visit) -> ConsolePage:
    """The form; with a span in the URL also the answer, with the rights of who asks."""
    page = replay_form(visit)
    if page.status == _MISSING or not page.values["span"] or page.values["fault"]:
        return page
    ran = await visit.tools.commands.run([*page.values["words"], "-o", "json", *_access(visit)], "", visit.bearer)
    return replace(page, values={**page.values, **_answered(ran)})


def replay_form(visit: Visit) -> ConsolePage:
    """The form without an answer."""
    key, span = ObjectKey(visit.parts["namespace"], visit.parts["name"]), visit.first("span")
    if not is_key(key):
        return ConsolePage("missing.html", "Not found", {"key": key}, status=_MISSING)
    words = ["simulate", key.name, f"--from-prometheus={span or SPANS[0][0]}", "-n", key.namespace]
    fault = None
    if span and span not in dict(SPANS):
        fault = fault_of(f"--from-prometheus: {span!r} cannot be used. Use the list of the page.", {})
    elif not visit.tools.settings.prometheus_url:
        fault = fault_of("The console knows no Prometheus: start it with --prometheus-url.", {})
    values: dict[str, Any] = {
        "key": key,
        "span": span,
        "spans": SPANS,
        "words": words,
        "answer": None,
        "fault": fault,
        "command": shlex.join(["plimsoll", *words]),
    }
    return ConsolePage("replay.html", "What would Auto have done?", values, is_live=False)


def _access(visit: Visit) -> Iterator[str]:
    settings = visit.tools.settings
    yield f"--prometheus-url={settings.prometheus_url}"
    if settings.kubeconfig and visit.bearer is None:
        yield f"--kubeconfig={settings.kubeconfig}"
    if settings.context and visit.bearer is None:
        yield f"--context={settings.context}"


def _answered(ran: Ran) -> dict[str, Any]:
    try:
        return {"answer": answer_of(json.loads(ran.out))}
    except ValueError:
        errors = (line.removeprefix("error: ") for line in ran.err.splitlines() if line.startswith("error: "))
        said = " ".join(errors) or f"The replay ended with status {ran.status} and without an answer."
        return {"fault": fault_of(said, {})}
