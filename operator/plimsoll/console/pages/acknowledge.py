"""``/deployments/NAMESPACE/NAME/acknowledge``: somebody knows what is wrong, and for how long it may rest."""

from __future__ import annotations

import shlex

from plimsoll.adapters.cluster.api_errors import FORBIDDEN, ClusterRefused
from plimsoll.adapters.cluster.kinds import INFERENCE_DEPLOYMENTS
from plimsoll.cli.cluster.acknowledging import FindingAnswer
from plimsoll.cli.cluster.live import put_acknowledgement
from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.pages.proposal import LONGEST_REASON, missing_rights
from plimsoll.console.views.paging import is_key
from plimsoll.console.views.proposals.inbox import acknowledging_path
from plimsoll.console.views.rows import Body, row_of
from plimsoll.console.visit import ConsolePage, Redirect, Visit
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.status.severity import state_at

LENGTHS = (("1h", "1 hour"), ("4h", "4 hours"), ("1d", "1 day"), ("7d", "7 days"), ("30d", "30 days"))
"""How long a finding may rest, as the form offers it. A terminal takes any time within 30 days."""

_OK, _CONFLICT, _MISSING = 200, 409, 404


async def acknowledging(visit: Visit) -> ConsolePage:
    """The trouble of one deployment, and the form or the command that acknowledges it."""
    return await _shown(visit)


async def acknowledge(visit: Visit) -> ConsolePage | Redirect:
    """Create a PlacementApproval in the person's own name, if the finding is the one that the page showed.

    Raises:
        ConsoleRefusal: the form has no such length, or its reason is too long.
    """
    until, reason = visit.form.get("until", ""), visit.form.get("reason", "").strip()
    if until not in dict(LENGTHS):
        raise ConsoleRefusal(422, "NoLength", "The form does not say for how long.", "Use the list of the page.")
    if len(reason) > LONGEST_REASON:
        sentence = f"The reason has {len(reason):,} characters; {LONGEST_REASON:,} are the most."
        raise ConsoleRefusal(422, "ReasonTooLong", sentence, "Write a shorter reason.")
    key, body = _key(visit), await _get(visit)
    if body is None:
        return _gone(key)
    if visit.form.get("generation", "") != str(body["metadata"].get("generation")):
        return await _shown(visit, "Nothing was written: the spec has changed since this page was shown.", _CONFLICT)
    answer = FindingAnswer(key.name, until, key.namespace, visit.form.get("finding", ""), reason or None)
    try:
        await put_acknowledgement(visit.cluster, answer, body, visit.now)
    except InvalidInput as error:
        return await _shown(visit, f"Nothing was written. {error}", _CONFLICT)
    except ClusterRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return await _shown(visit, f"The API server refused it: {refusal.message}", FORBIDDEN)
    return Redirect(f"/deployments/{key.namespace}/{key.name}")


async def _shown(visit: Visit, banner: str = "", status: int = _OK) -> ConsolePage:
    key, body = _key(visit), await _get(visit)
    if body is None:
        return _gone(key)
    judged = state_at(row_of(body).signs, visit.now)
    is_open = bool(judged.finding) and judged.known is None
    may_write = visit.tools.settings.allow_approvals and is_open
    missing = await missing_rights(visit, key) if may_write else ()
    words = ("plimsoll", "acknowledge", key.name, "-n", key.namespace, "--finding", judged.finding, "--until", "4h")
    values = {
        "key": key,
        "judged": judged,
        "is_open": is_open,
        "generation": body["metadata"].get("generation"),
        "banner": banner,
        "missing": missing,
        "has_form": may_write and not missing,
        "command": f"{shlex.join(words)} --reason '...'",
        "lengths": LENGTHS,
        "longest": LONGEST_REASON,
        "path": acknowledging_path(key),
    }
    return ConsolePage("acknowledge.html", f"Acknowledge {key.name}", values, status, is_live=False)


def _gone(key: ObjectKey) -> ConsolePage:
    return ConsolePage("missing.html", "Not found", {"key": key}, status=_MISSING)


def _key(visit: Visit) -> ObjectKey:
    return ObjectKey(visit.parts["namespace"], visit.parts["name"])


async def _get(visit: Visit) -> Body | None:
    """Return the object as the API server has it now. Nothing that is no name becomes a part of the request's path."""
    key = _key(visit)
    return await visit.cluster.get(INFERENCE_DEPLOYMENTS, key) if is_key(key) else None
