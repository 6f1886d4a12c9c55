"""``/proposals/NAMESPACE/NAME``: one proposal, and, if approvals are allowed, a person's answer to it."""

from __future__ import annotations

from plimsoll.adapters.cluster.api_errors import FORBIDDEN, GONE, ClusterRefused
from plimsoll.adapters.cluster.kinds import APPROVALS, INFERENCE_DEPLOYMENTS, PROPOSALS, ObjectKind
from plimsoll.api.v1alpha1.inbox import Verdict
from plimsoll.cli.cluster.answering import ProposalAnswer
from plimsoll.cli.cluster.live import put_answer
from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.views.paging import is_key, is_name
from plimsoll.console.views.proposals.content import AnswerLine, Body, answers_of, content_of
from plimsoll.console.views.proposals.inbox import OUTDATED, is_outdated
from plimsoll.console.views.proposals.page import ProposalPage, badge_of, parts_of, path_of, proposal_of
from plimsoll.console.visit import ConsolePage, Redirect, Visit
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey

LONGEST_REASON = 1024
"""Most characters of a reason, as the API has it."""

_OK, _CONFLICT = 200, 409
_APPROVALS = f"{APPROVALS.plural}.{APPROVALS.group}"


async def proposal(visit: Visit) -> ConsolePage:
    """One proposal as the API server has it now, with the answers to it."""
    return await _shown(visit)


async def answer(visit: Visit) -> ConsolePage | Redirect:
    """Create a PlacementApproval in the person's own name, if the form is about the proposal as it is now.

    Raises:
        ConsoleRefusal: the form has no such decision, or its reason is too long.
    """
    decision, reason = visit.form.get("decision", ""), visit.form.get("reason", "").strip()
    _check(decision, reason)
    key = _key(visit)
    body = await _get(visit, PROPOSALS, key)
    stale = _stale(body, visit)
    if body is None or stale:
        return await _shown(visit, stale, _CONFLICT)
    content = content_of(body)
    sent = ProposalAnswer(decision, content.fields.deployment, key.namespace, content.fields.id, reason or None)
    try:
        made, _ = await put_answer(visit.cluster, sent, body, key.namespace)
    except ClusterRefused as refusal:
        if refusal.status != FORBIDDEN:
            raise
        return await _shown(visit, f"The API server refused your answer: {refusal.message}", FORBIDDEN)
    return Redirect(f"{path_of(key)}?answer={made.name}")


def _check(decision: str, reason: str) -> None:
    if decision not in {each.value for each in Verdict}:
        raise ConsoleRefusal(
            422, "NoDecision", "The form does not say approve or reject.", "Use the buttons of the page."
        )
    if len(reason) > LONGEST_REASON:
        sentence = f"The reason has {len(reason):,} characters; {LONGEST_REASON:,} are the most."
        raise ConsoleRefusal(422, "ReasonTooLong", sentence, "Write a shorter reason.")


def _stale(body: Body | None, visit: Visit) -> str:
    """Return why the form cannot be carried out any more; empty if it can."""
    if body is None:
        return "Nothing was written: this proposal does not stand any more."
    content, known = content_of(body), visit.form.get("id", "")
    if known != content.fields.id or not content.is_answerable(visit.now):
        return (
            f"Nothing was written: your answer is for proposal {known or 'without an id'}, and this page now shows "
            f"{content.fields.id}, which is {content.state_at(visit.now)}. Read it again before you decide."
        )
    return ""


async def _shown(visit: Visit, banner: str = "", status: int = _OK) -> ConsolePage:
    key = _key(visit)
    body = await _get(visit, PROPOSALS, key)
    if body is None:
        return await _gone(visit, key, banner, status)
    found = proposal_of(body, visit.world.fleet, await _spec(visit, content_of(body).deployment), visit.now)
    fields = found.content.fields
    answers, gap = await _answers(visit, key.namespace, fields.deployment, fields.id)
    follows = _followed(visit)
    missing = () if follows else await _missing(visit, found)
    has_form = visit.tools.settings.allow_approvals and bool(found.verdicts) and not missing and not follows
    values = {"found": found, "answers": answers, "answers_gap": gap, "banner": banner, "missing": missing}
    outdated = is_outdated(body, visit.world.rows.get(found.content.deployment))
    values |= {"outdated": OUTDATED if outdated and found.verdicts else ""}
    values |= {"has_form": has_form, "follows": follows, "path": path_of(key), "longest": LONGEST_REASON}
    return ConsolePage(
        "proposal.html", f"Proposal for {fields.deployment}", values, status, is_live=not has_form and status == _OK
    )


async def _gone(visit: Visit, key: ObjectKey, banner: str, status: int) -> ConsolePage:
    """The page of a proposal that does not stand any more. The answers to it may still be there."""
    deployment, known = parts_of(key.name) if is_key(key) else ("", "")
    answers, gap = await _answers(visit, key.namespace, deployment, known) if known else ((), "")
    values: dict[str, object] = {
        "key": key,
        "deployment": deployment,
        "answers": answers,
        "answers_gap": gap,
        "banner": banner,
    }
    values |= {"badge": badge_of("gone")}
    if status == _OK and not answers:
        status = GONE
    return ConsolePage("proposal_gone.html", "Proposal", values, status, is_live=status == _OK)


def _followed(visit: Visit) -> str:
    """Return the answer that the address names: after a form was sent, the page is live and has no form."""
    name = visit.first("answer")
    return name if is_name(name) else ""


def _key(visit: Visit) -> ObjectKey:
    return ObjectKey(visit.parts["namespace"], visit.parts["name"])


async def _get(visit: Visit, kind: ObjectKind, key: ObjectKey) -> Body | None:
    """Return one object. Nothing that is no name becomes a part of the request's path."""
    return await visit.cluster.get(kind, key) if is_key(key) else None


async def _spec(visit: Visit, key: ObjectKey) -> Body:
    """Return the spec of the deployment; empty if the person may not read it."""
    try:
        body = await _get(visit, INFERENCE_DEPLOYMENTS, key)
    except PlimsollError:
        return {}
    return dict((body or {}).get("spec") or {})


async def _answers(visit: Visit, namespace: str, deployment: str, known: str) -> tuple[tuple[AnswerLine, ...], str]:
    """Return the answers to a proposal, and why they cannot be shown."""
    try:
        found = await visit.cluster.list(APPROVALS, namespace=namespace)
    except ClusterRefused as refusal:
        return (), _gap(refusal, namespace, _followed(visit))
    return answers_of(found.items, deployment, known), ""


def _gap(refusal: ClusterRefused, namespace: str, made: str) -> str:
    if refusal.status == GONE:
        return f"The cluster has no {_APPROVALS}. Upgrade Plimsoll's chart with its CRDs, and leave approvals on."
    if refusal.status != FORBIDDEN:
        return f"The answers cannot be read now: {refusal.message}"
    about = f" The address names the answer {made}; its outcome is not known here." if made else ""
    return f"You may not list {_APPROVALS} in the namespace {namespace}, so answers are not shown.{about}"


async def _missing(visit: Visit, found: ProposalPage) -> tuple[str, ...]:
    """Return the rights that the person lacks for an answer, as sentences. Without a form nothing is asked."""
    if not visit.tools.settings.allow_approvals or not found.verdicts:
        return ()
    return await missing_rights(visit, found.content.deployment)


async def missing_rights(visit: Visit, deployment: ObjectKey) -> tuple[str, ...]:
    """Return the rights that the person lacks to answer about a deployment, as sentences."""
    create = ObjectKey(deployment.namespace, "")
    try:
        may_create = await visit.cluster.may("create", APPROVALS, create)
        may_approve = await visit.cluster.may("approve", INFERENCE_DEPLOYMENTS, deployment)
    except PlimsollError as error:
        return (f"Your rights cannot be asked for now: {error}.",)
    first = f"You may not create {_APPROVALS} in the namespace {deployment.namespace}."
    second = f"You do not have the verb approve on the InferenceDeployment {deployment}."
    return tuple(words for words, allowed in ((first, may_create), (second, may_approve)) if not allowed)
