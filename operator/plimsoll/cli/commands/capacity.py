"""``plimsoll capacity``."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import click

from plimsoll.app.review.values import DeploymentWish, Means, Measured
from plimsoll.cli.cluster.options import ClusterAccess, refuse_two_sources, with_cluster
from plimsoll.cli.context import prices_from
from plimsoll.cli.later import OR_FLEET, cluster_of, default_namespace, replay_capacity
from plimsoll.cli.plans.capacity import Subject, capacity_document, located, measure_offline, print_capacity
from plimsoll.cli.plans.tables import print_document
from plimsoll.cli.process import EXIT_PLACED, EXIT_UNPLACED
from plimsoll.cli.questions.asked import TypedOptions
from plimsoll.cli.questions.engine_names import HELP as ENGINE_HELP
from plimsoll.cli.questions.names import meant_types
from plimsoll.cli.reading.documents import no_effect_note
from plimsoll.cli.reading.files import refuse_second_stdin
from plimsoll.cli.reading.model_sources import hub_access
from plimsoll.cli.reading.snapshot_files import snapshot_from
from plimsoll.cli.screen import say, screen


@click.command("capacity")
@click.argument("model", required=False)
@click.option("-f", "--filename", "file", help="A file with one InferenceDeployment (or -), instead of MODEL.")
@click.option("--gpu", "gpus", multiple=True, help="Only this GPU type; may be repeated. With MODEL.")
@click.option("--tp", type=click.IntRange(1, 64), help="Only this tensor-parallel degree. With MODEL.")
@click.option("--context-length", type=click.IntRange(1), help="Longest request in tokens. Default: 8192. With MODEL.")
@click.option("--concurrency", type=click.IntRange(1), help="Requests of one replica. Default: 16. With MODEL.")
@click.option("--prompt", type=click.IntRange(1), help="Mean prompt tokens, with --output-tokens.")
@click.option("--output-tokens", "output", type=click.IntRange(1), help="Mean output tokens, with --prompt.")
@click.option("--precision", help="Weights: auto, bf16, fp16, fp8, ... With MODEL.")
@click.option(
    "--kv-precision",
    help="KV cache: auto, bf16, fp16, fp8, nvfp4, int8, int4, fp8_per_token_head, turboquant_*. With MODEL.",
)
@click.option("--engine", help=f"{ENGINE_HELP} With MODEL.")
@click.option(
    "--fleet",
    help="A file (or -) instead of the cluster: kubectl get nodes,pods,resourcequotas,limitranges -A -o yaml.",
)
@click.option("--snapshot", help="A file (or -) of `plimsoll fleet export` instead of the cluster.")
@click.option("--prices", help="Own prices: a ConfigMap manifest, or a list in CSV (see `plimsoll prices check`).")
@click.option(
    "-n",
    "--namespace",
    help="Whose quota counts, for an object that names none. Default: as for kubectl, without a cluster default.",
)
@click.option("-o", "--output", "form", type=click.Choice(["table", "json", "yaml"]), default="table")
@with_cluster
def command(
    model: str | None,
    file: str | None,
    gpus: tuple[str, ...],
    tp: int | None,
    context_length: int | None,
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
    asked = TypedOptions(context=context_length, gpus=meant.types, **options)
    if file is not None and (asked != TypedOptions() or tp is not None):
        raise click.UsageError("The options of a model go with MODEL; with -f, write them into the manifest.")
    subject = Subject(model, file, asked, tp)
    if fleet is not None:
        found = measure_offline(located(subject, namespace or "default"), fleet, prices)
    else:
        means = Means(*hub_access(), prices=None if prices is None else prices_from(prices))
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
    return cluster_of(access, OR_FLEET).measure(DeploymentWish(found.where, found.body), means)
