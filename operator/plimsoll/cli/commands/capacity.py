"""``plimsoll capacity``."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from plimsoll.app.review.values import DeploymentWish, Means, Measured
from plimsoll.cli.cluster.options import ClusterAccess, refuse_two_sources, with_cluster
from plimsoll.cli.context import prices_from
from plimsoll.cli.later import OR_FLEET, deciding_cluster, default_namespace, replay_capacity
from plimsoll.cli.options import OF_CONTEXT, complete_model, option, output
from plimsoll.cli.plans.capacity import Subject, capacity_document, located, measure_offline, print_capacity
from plimsoll.cli.process import EXIT_PLACED, EXIT_UNPLACED
from plimsoll.cli.questions.asked import TypedOptions
from plimsoll.cli.questions.names import meant_types
from plimsoll.cli.reading.documents import no_effect_note
from plimsoll.cli.reading.files import refuse_second_stdin
from plimsoll.cli.reading.model_sources import hub_access
from plimsoll.cli.reading.snapshot_files import snapshot_from
from plimsoll.cli.screen import print_document, say, screen, waiting

_WITH_MODEL = "With MODEL."


@click.command("capacity")
@click.argument("model", required=False, shell_complete=complete_model)
@option("--filename", "file", note="It has one InferenceDeployment, instead of MODEL.")
@option("--gpu", "gpus", note=_WITH_MODEL, multiple=True)
@option("--tp", note=_WITH_MODEL)
@option("--context-length", note=f"Default: 8192. {_WITH_MODEL}")
@option("--concurrency", note=_WITH_MODEL)
@option("--prompt", note=_WITH_MODEL)
@option("--output-tokens", note=_WITH_MODEL)
@option("--precision", note=_WITH_MODEL)
@option("--kv-precision", note=_WITH_MODEL)
@option("--engine", note=_WITH_MODEL)
@option("--fleet")
@option("--snapshot")
@option("--prices")
@option("--namespace", note=f"Whose quota counts. {OF_CONTEXT} Without a cluster: default.")
@output("table", "json", "yaml")
@with_cluster
def command(
    model: str | None,
    file: str | None,
    gpus: tuple[str, ...],
    tp: int | None,
    fleet: str | None,
    snapshot: str | None,
    prices: str | None,
    namespace: str | None,
    form: str,
    kubeconfig: str | None,
    context: str | None,
    **options: Any,
) -> None:
    """Say how many more replicas of MODEL (or of a manifest, -f) fit, where, at which price, and what blocks the next.

    On a cluster it counts what is free after the operator's decisions on all InferenceDeployments. With --snapshot it
    does the same for the cluster as it was. With --fleet it counts what the pods of the file leave free. Changes
    nothing.

    Exit status: 0 at least one more fits, 1 none fits, 2 some input cannot be used.
    """
    refuse_second_stdin(f=[file or ""], fleet=[fleet or ""], snapshot=[snapshot or ""], prices=[prices or ""])
    refuse_two_sources(fleet, snapshot, ClusterAccess(kubeconfig, context))
    meant = meant_types(gpus, every=True)
    asked = TypedOptions(gpus=meant.types, **options)
    if file is not None and (asked != TypedOptions() or tp is not None):
        raise click.UsageError("The options of a model go with MODEL; with -f, write them into the manifest.")
    subject = Subject(model, file, asked, tp)
    if fleet is not None:
        found = measure_offline(located(subject, namespace or "default"), fleet, prices)
    else:
        means = Means(*hub_access(), prices=None if prices is None else prices_from(prices))
        with waiting("deciding on the cluster as the operator does"):
            found = _measured(subject, namespace, snapshot, means, ClusterAccess(kubeconfig, context))
    found = replace(found, notes=(*meant.notes, *found.notes))
    say("note", (*found.notes, no_effect_note(namespace, {found.key.namespace})))
    if form == "table":
        print_capacity(screen(), found)
    else:
        print_document(form, capacity_document(found))
    sys.exit(EXIT_PLACED if found.capacity.total else EXIT_UNPLACED)


def _measured(
    subject: Subject, namespace: str | None, snapshot: str | None, means: Means, access: ClusterAccess
) -> Measured:
    if snapshot is not None:
        found = located(subject, namespace or "default")
        return replay_capacity(snapshot_from(snapshot), DeploymentWish(found.where, found.body), means)
    found = located(subject, namespace or default_namespace(access.file, access.context))
    return deciding_cluster(access, OR_FLEET).measure(DeploymentWish(found.where, found.body), means)
