"""``plimsoll plan`` on a cluster or a snapshot: the operator's own decision, as a difference to what runs.

The objects of the user's files as a live cluster would get them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import click

from plimsoll.app.exports.document import Export, objects_of
from plimsoll.app.review.values import DeploymentWish, Means, Review, WhatIf
from plimsoll.cli.cluster.options import ClusterAccess
from plimsoll.cli.context import prices_from
from plimsoll.cli.later import OR_FLEET, deciding_cluster, default_namespace, replay
from plimsoll.cli.plans.fleet_review import fleet_file, review_on
from plimsoll.cli.plans.markdown import review_markdown
from plimsoll.cli.plans.review import document, print_review
from plimsoll.cli.plans.tables import print_objects
from plimsoll.cli.prices.price_files import priced_types
from plimsoll.cli.process import EXIT_BAD_INPUT, EXIT_PLACED, EXIT_UNPLACED
from plimsoll.cli.reading.documents import Located, Manifests, check_located, namesakes, parse_located
from plimsoll.cli.reading.model_sources import hub_access
from plimsoll.cli.reading.snapshot_files import AdminFiles
from plimsoll.cli.screen import print_document, say, screen, waiting
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey


def wishes_of(found: Sequence[Located], namespace: str) -> tuple[list[DeploymentWish], list[str]]:
    """Return the usable objects, and what is wrong with the others.

    ``namespace`` is that of objects that name none.
    """
    problems: list[str] = []
    places: dict[ObjectKey, list[DeploymentWish]] = {}
    for each in found:
        try:
            parse_located(each)
            check_located(each)
        except PlimsollError as error:
            problems.append(str(error))
            continue
        head = {**each.body["metadata"], "namespace": each.body["metadata"].get("namespace") or namespace}
        wish = DeploymentWish(each.where, {**each.body, "metadata": head})
        places.setdefault(wish.key, []).append(wish)
    problems += namesakes({key: [each.where for each in wishes] for key, wishes in places.items()})
    return [wishes[0] for wishes in places.values() if len(wishes) == 1], problems


@dataclass(frozen=True, slots=True)
class LivePlanOptions:
    """The options of a plan on a cluster: a namespace for objects without one, own prices, and what-if changes.

    ``dry_run`` is whether the API server is asked what it would store. ``notes`` say how the options were read.
    """

    namespace: str | None = None
    prices: str | None = None
    what_if: tuple[WhatIf, ...] = ()
    dry_run: bool = True
    notes: tuple[str, ...] = ()


def plan_live(manifests: Manifests, access: ClusterAccess, wanted: LivePlanOptions, output: str) -> int:
    """Print the review of manifests on a cluster. Return the exit status."""
    home = wanted.namespace or default_namespace(access.file, access.context)

    return _plan(manifests, home, wanted, output, lambda *asked: deciding_cluster(access, OR_FLEET).review(*asked))


def plan_stored(manifests: Manifests, stored: Export, wanted: LivePlanOptions, output: str) -> int:
    """Print the review of manifests on a snapshot; without any, of all its objects. Return the exit status."""

    def ask(wishes: Sequence[DeploymentWish], means: Means) -> Review:
        return replay(stored, wishes if wishes or wanted.what_if else objects_of(stored), means)

    return _plan(manifests, wanted.namespace or "default", wanted, output, ask, may_be_empty=not manifests.found)


def plan_file(manifests: Manifests, file: str, admin: AdminFiles, wanted: LivePlanOptions, output: str) -> int:
    """Print what ``--what-if`` changes in the plan of manifests on a file of nodes. Return the exit status."""

    def ask(wishes: Sequence[DeploymentWish], means: Means) -> Review:
        own = prices_from(None) if means.prices is None else means.prices
        nodes, groups = fleet_file(file, own, admin.settings()), admin.groups(priced_types(own))
        return review_on(nodes, groups, wishes, means.what_if)

    return _plan(manifests, wanted.namespace or "default", wanted, output, ask)


def _plan(
    manifests: Manifests,
    home: str,
    wanted: LivePlanOptions,
    output: str,
    ask: Callable[[Sequence[DeploymentWish], Means], Review],
    *,
    may_be_empty: bool = False,
) -> int:
    wishes, unusable = wishes_of(manifests.found, home)
    say("error", unusable)
    if not wishes and not wanted.what_if and not (may_be_empty and not unusable):
        return EXIT_BAD_INPUT
    own = None if wanted.prices is None else prices_from(wanted.prices)
    means = Means(*hub_access(), prices=own, what_if=wanted.what_if, dry_run=wanted.dry_run)
    with waiting("deciding on the cluster as the operator does"):
        found = ask(wishes, means)
    found = replace(found, notes=(*wanted.notes, *found.notes))
    say("error", found.problems)
    say("note", found.notes)
    _print(found, output)
    return exit_status(len(manifests.problems) + len(unusable) + len(found.problems), is_good=found.is_good)


def exit_status(unusable: int, *, is_good: bool, is_shown: bool = True) -> int:
    """Return the exit status of a plan, and say if it was shown without inputs that cannot be used."""
    if unusable and is_shown:
        say("error", [f"{unusable} of the inputs cannot be used (see above): this plan is without them."])
    if unusable:
        return EXIT_BAD_INPUT
    return EXIT_PLACED if is_good else EXIT_UNPLACED


def _print(found: Review, form: str) -> None:
    if form == "table":
        print_review(screen(), found)
    elif form == "markdown":
        click.echo(review_markdown(found), nl=False)
    elif form == "objects":
        print_objects(body for change in found.changes if change.where for body in change.manifests)
    else:
        print_document(form, document(found))
