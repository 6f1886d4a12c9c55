"""Asks the API server what it would store (a dry run); if this user may not ask, the same is worked out here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from plimsoll.adapters.cluster.api_errors import FORBIDDEN, GONE
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS, Cluster, ClusterRefused
from plimsoll.api.crd.rules import check_rules
from plimsoll.app.review.looking import ClusterLook
from plimsoll.app.review.overlay import applied, stored
from plimsoll.app.review.values import DeploymentWish
from plimsoll.app.watch.store import Body
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey


@dataclass(slots=True)
class Admitted:
    """The objects as they would be stored, in the order of the files, and what the API server says against others."""

    bodies: dict[ObjectKey, Body] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


async def admitted(cluster: Cluster, wishes: Sequence[DeploymentWish], seen: ClusterLook, now: float) -> Admitted:
    """Return every wish as it would be stored.

    Raises:
        SourceUnavailable: the API server does not answer.
    """
    found = Admitted()
    for wish in wishes:
        live = seen.live.get(wish.key)
        sent = applied(wish.body, live, is_whole=wish.is_whole)
        try:
            found.bodies[wish.key] = await cluster.checked(INFERENCE_DEPLOYMENTS, sent)
        except ClusterRefused as refusal:
            if not _is_unanswered(refusal):
                found.problems.append(f"{wish.where}: The API server would refuse it: {refusal.message}")
                continue
            if _check_here(wish, seen, now, found) and not found.notes:
                found.notes.append(f"The API server was not asked whether it would accept every object: {refusal}.")
    return found


def checked_here(wishes: Sequence[DeploymentWish], seen: ClusterLook, now: float) -> Admitted:
    """Return every wish as it would be stored, by the rules of the CRD alone. The API server is not asked."""
    found = Admitted()
    for wish in wishes:
        _check_here(wish, seen, now, found)
    if found.bodies:
        found.notes.append(
            "The API server was not asked whether it would accept the objects. Admission rules may refuse them."
        )
    return found


def _check_here(wish: DeploymentWish, seen: ClusterLook, now: float, found: Admitted) -> bool:
    """Add the object as it would be stored, or the problem. Return whether there is none."""
    live = seen.live.get(wish.key)
    sent = applied(wish.body, live, is_whole=wish.is_whole)
    try:
        check_rules(sent)
    except PlimsollError as error:
        found.problems.append(f"{wish.where}: {error}")
        return False
    found.bodies[wish.key] = stored(sent, live, now)
    return True


def _is_unanswered(refusal: ClusterRefused) -> bool:
    """Whether the answer is not about the object: this user may not write it, or its namespace is still to come."""
    may_not = (
        refusal.status == FORBIDDEN and " cannot " in refusal.message and "admission webhook" not in refusal.message
    )
    return may_not or refusal.status == GONE
