"""``plimsoll plan``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import click

from plimsoll.app.review.values import WhatIf
from plimsoll.cli.answers.learned import taught_request, used_words
from plimsoll.cli.cluster.options import ClusterAccess, refuse_two_sources, with_cluster
from plimsoll.cli.cluster.teachers import Lessons, Teachers
from plimsoll.cli.context import prices_from
from plimsoll.cli.later import lessons_of
from plimsoll.cli.options import OF_CONTEXT, option, output
from plimsoll.cli.planning import Planned, PlannedStatus, appraisal_of, plan_document
from plimsoll.cli.plans.fleet_review import fleet_file
from plimsoll.cli.plans.live_plan import LivePlanOptions, exit_status, plan_file, plan_live, plan_stored
from plimsoll.cli.plans.markdown import plan_markdown
from plimsoll.cli.plans.tables import (
    print_appraisal,
    print_details,
    print_left_out,
    print_objects,
    print_plan,
)
from plimsoll.cli.plans.what_if import what_if_notes, what_if_of
from plimsoll.cli.prices.price_files import priced_types
from plimsoll.cli.process import EXIT_BAD_INPUT, today
from plimsoll.cli.reading.documents import (
    Manifests,
    in_namespace,
    namespace_note,
    no_deployment,
    read_manifests,
    refuse_namespace_of_nothing,
)
from plimsoll.cli.reading.files import refuse_second_stdin
from plimsoll.cli.reading.snapshot_files import AdminFiles, snapshot_from
from plimsoll.cli.screen import print_document, print_heading, print_lines, say, screen
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.errors import InvalidInput
from plimsoll.facts.prices.remarks import remarks_on
from plimsoll.placement.demands.pools import as_it_runs
from plimsoll.status.words.prices import remark_summaries


@click.command("plan")
@option("--filename", "files", note="Folders of manifests are read, too.", multiple=True)
@option("--what-if", multiple=True)
@option("--recursive")
@option("--fleet")
@option("--snapshot", note="The same decision again.")
@option("--prices")
@output("table", "json", "yaml", "markdown", "objects")
@option("--namespace", note=f"For objects of -f that name none. {OF_CONTEXT} Without a cluster: default.")
@option("--node-groups", note="With --fleet.")
@option("--values", note="With --fleet.")
@option("--observations", note="With --fleet.", multiple=True)
@option("--dry-run")
@with_cluster
def command(
    files: tuple[str, ...],
    what_if: tuple[str, ...],
    recursive: bool,  # noqa: FBT001 - a flag of the command line
    fleet: str | None,
    snapshot: str | None,
    prices: str | None,
    node_groups: str | None,
    values: str | None,
    observations: tuple[str, ...],
    form: str,
    namespace: str | None,
    dry_run: bool,  # noqa: FBT001 - same
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Say where manifests would be placed, with which estimate, and why not elsewhere. Changes nothing.

    On a cluster it shows what the operator would do after kubectl apply: placed, moved, changed, kept, waiting,
    refused, for all InferenceDeployments that change, and the bill before and after. With --snapshot it shows the same
    for the cluster as it was; without -f and --what-if for all its objects. With --fleet the manifests are planned
    together on an empty record: the first gets its GPUs first, unless PriorityClasses in the file of the fleet say
    otherwise. With --fleet and --what-if it shows their plan without and with the changes.

    Exit status: 0 everything is placed, 1 something cannot be placed, 2 some input cannot be used (the rest is planned
    without it).
    """
    others = {"fleet": fleet, "snapshot": snapshot, "prices": prices, "node-groups": node_groups, "values": values}
    refuse_second_stdin(f=files, **{name: [given or ""] for name, given in others.items()})
    access = ClusterAccess(kubeconfig, context)
    refuse_two_sources(fleet, snapshot, access)
    of_admin = {"--node-groups": node_groups, "--values": values}
    _refuse_idle_options(files, namespace, fleet, snapshot, of_admin, recursive=recursive, dry_run=dry_run)
    if not files and snapshot is None and (fleet is not None or not what_if):
        raise click.UsageError("Missing option '-f' / '--filename'.")
    changes = what_if_of(what_if)
    _refuse_observations(observations, fleet, changes)
    is_asked = fleet is None and (bool(changes) or (not files and bool(snapshot)))
    manifests = _manifests(files, namespace, recursive=recursive, may_be_empty=is_asked)
    wanted = LivePlanOptions(namespace, prices, changes, dry_run, what_if_notes(what_if))
    if snapshot is not None:
        sys.exit(plan_stored(manifests, snapshot_from(snapshot), wanted, form))
    if fleet is None:
        sys.exit(plan_live(manifests, access, wanted, form))
    admin = AdminFiles.read(node_groups, values)
    if changes:
        sys.exit(plan_file(manifests, fleet, admin, wanted, form))
    teachers = Teachers(files=observations)
    sys.exit(_plan_offline(_homed(manifests, namespace), fleet, prices, admin, form, teachers))


def _refuse_idle_options(
    files: tuple[str, ...],
    namespace: str | None,
    fleet: str | None,
    snapshot: str | None,
    of_admin: Mapping[str, str | None],
    *,
    recursive: bool,
    dry_run: bool,
) -> None:
    """Raise :class:`InvalidInput` for an option that would have no effect with the others."""
    refuse_namespace_of_nothing(namespace, files)
    if recursive and not files:
        raise InvalidInput("-R", recursive, "It is for folders that -f names: leave it out, or name a folder.")
    for name, given in of_admin.items():
        if fleet is None and given is not None:
            fix = "On a cluster and a snapshot those of the operator count: use it with --fleet."
            raise InvalidInput(name, given, fix)
    if not dry_run and (fleet is not None or snapshot is not None):
        fix = "Leave it out: a file of --fleet or --snapshot has no API server to ask."
        raise InvalidInput("--no-dry-run", True, fix)  # noqa: FBT003 - the value of the flag


def _refuse_observations(observations: Sequence[str], fleet: str | None, changes: Sequence[WhatIf]) -> None:
    """Raise :class:`InvalidInput` for ``--observations`` if other observations count, or none."""
    if observations and fleet is None:
        fix = "On a cluster and a snapshot the statuses of the objects count: use it with --fleet."
        raise InvalidInput("--observations", observations[0], fix)
    if observations and changes:
        raise InvalidInput("--observations", observations[0], "Leave it out, or leave --what-if out.")


def _homed(manifests: Manifests, namespace: str | None) -> Manifests:
    if namespace is None:
        return manifests
    return replace(manifests, found=[in_namespace(each, namespace) for each in manifests.found])


def _manifests(files: tuple[str, ...], namespace: str | None, *, recursive: bool, may_be_empty: bool) -> Manifests:
    """Read the manifests. Raises :class:`InvalidInput`, or ends the command, if there is none and one is needed."""
    manifests = read_manifests(files, recursive=recursive)
    say("error", manifests.problems)
    if not manifests.found and not (may_be_empty and not manifests.problems):
        if not manifests.problems:
            raise no_deployment(files)
        sys.exit(EXIT_BAD_INPUT)
    say("note", (manifests.note(), namespace_note(namespace, manifests.found)))
    return manifests


def _plan_offline(
    manifests: Manifests, fleet: str, prices: str | None, admin: AdminFiles, output: str, teachers: Teachers
) -> int:
    """Plan on the nodes of a file, with the files of prices and of the admin. Return the exit status."""
    own = prices_from(prices)
    file = fleet_file(fleet, own, admin.settings())
    groups = admin.groups(priced_types(own))
    say("warning", file.quotas.complaints)
    taught = lessons_of(teachers) if teachers.are_asked else Lessons()
    teach = partial(taught_request, lessons=taught, as_operator=True)
    shown, problems = file.planned(manifests.found, _SHOW.get(output, Planned.document), groups, teach)
    say("error", problems)
    if shown:
        _print_plan([printed for _, printed in shown], output, file.fleet)
        if output == "table":
            print_appraisal(screen(), appraisal_of(entry for entry, _ in shown))
        _warn_of_prices(file.fleet)
        say("note", (*taught.notes, *dict.fromkeys(each for entry, _ in shown for each in _lessons_of(entry, taught))))
    unusable, is_good = len(manifests.problems) + len(problems), all(entry.is_placed for entry, _ in shown)
    return exit_status(unusable, is_good=is_good, is_shown=bool(shown))


def _lessons_of(entry: Planned, lessons: Lessons) -> Iterator[str]:
    request = entry.decision.request
    for pool in entry.decision.pools:
        used = as_it_runs(request, pool).correction_for(pool.gpu_type, pool.split)
        if used is not None:
            yield f"{request.key.namespace}/{request.key.name}: {used_words(request, used, lessons.taught)}"


def _warn_of_prices(fleet: Fleet) -> None:
    used = {CapacityType.ON_DEMAND, *(node.capacity_type for node in fleet.nodes)}
    say("warning", remark_summaries(remarks_on(fleet.gpu_types(), today(), used)))


_SHOW: Mapping[str, Callable[[Planned], Any]] = MappingProxyType(
    {"objects": Planned.objects, "table": Planned.outcome, "markdown": Planned.outcome}
)


def _print_plan(printed: Sequence[Any], form: str, fleet: Fleet) -> None:
    if form == "table":
        _show_plan(printed, fleet)
    elif form == "markdown":
        click.echo(plan_markdown(printed), nl=False)
    elif form == "objects":
        print_objects(body for bodies in printed for body in bodies)
    else:
        print_document(form, plan_document(printed))


def _show_plan(outcomes: Sequence[PlannedStatus], fleet: Fleet) -> None:
    console = screen()
    print_plan(console, outcomes)
    for outcome in outcomes:
        print_heading(console, f"{outcome.namespace}/{outcome.name}")
        print_lines(console, filter(None, (outcome.message,)))
        print_details(console, outcome.status)
    print_left_out(console, fleet)
