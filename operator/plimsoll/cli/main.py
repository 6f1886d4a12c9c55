"""The ``plimsoll`` command.

Exit status of ``plan``: 0 everything is placed, 1 something cannot be placed, 2 the input cannot be used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click
import yaml
from rich.console import Console
from rich.table import Table

from plimsoll import __version__
from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.cli.context import ClusterAccess, fleet_from, live_object, prices_from
from plimsoll.cli.documents import load_deployments
from plimsoll.cli.planning import plan_manifests
from plimsoll.cli.tables import print_details, print_ignored, print_plan
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.fleet import IgnoredNode
from plimsoll.domain.units import GIB
from plimsoll.rebalance.learning import CapacityReading, error_percent_text

EXIT_PLACED = 0
EXIT_UNPLACED = 1
EXIT_BAD_INPUT = 2

_CLUSTER_OPTIONS = (
    click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="As for kubectl."),
    click.option("--context", help="As for kubectl."),
)


def _with_cluster(command: Any) -> Any:
    for option in reversed(_CLUSTER_OPTIONS):
        command = option(command)
    return command


@click.group()
@click.version_option(__version__)
def cli() -> None:
    """The load line for GPU memory: size, place and rebalance vLLM deployments on Kubernetes."""


@cli.command()
def run() -> None:
    """Run the operator. Settings come from PLIMSOLL_* environment variables."""
    from plimsoll.app.operator import run as run_operator  # noqa: PLC0415 - Kopf is heavy and only needed here
    from plimsoll.app.settings import Settings  # noqa: PLC0415 - same

    run_operator(Settings.from_environment())


@cli.command()
@click.option("-f", "--filename", "files", multiple=True, required=True, help="Manifest; may be repeated.")
@click.option("--fleet", help="Nodes and pods from a file instead of the cluster: kubectl get nodes,pods -A -o yaml.")
@click.option("--prices", help="ConfigMap manifest with US dollars per GPU and hour, by GPU type.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml", "objects"]), default="table")
@_with_cluster
def plan(
    files: tuple[str, ...],
    fleet: str | None,
    prices: str | None,
    output: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Say where manifests would be placed, with which estimate, and why not elsewhere. Changes nothing."""
    seen = fleet_from(fleet, ClusterAccess(kubeconfig, context), prices_from(prices))
    planned = plan_manifests(load_deployments(files), seen)
    documents = [entry.document() for entry in planned]
    if output == "objects":
        click.echo(
            yaml.safe_dump_all([body for entry in planned for body in entry.objects()], sort_keys=False), nl=False
        )
    elif output == "json":
        click.echo(json.dumps(documents, indent=2))
    elif output == "yaml":
        click.echo(yaml.safe_dump(documents, sort_keys=False), nl=False)
    else:
        _show_plan(documents, seen.ignored)
    sys.exit(EXIT_PLACED if all(entry.is_placed for entry in planned) else EXIT_UNPLACED)


def _show_plan(documents: list[dict[str, Any]], ignored: Sequence[IgnoredNode]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    print_plan(console, documents)
    for document in documents:
        console.rule(f"{document['namespace']}/{document['name']}", align="left")
        print_details(console, document)
    print_ignored(console, ignored)


@cli.command()
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True)
@_with_cluster
def explain(name: str, namespace: str, kubeconfig: str | None, context: str | None) -> None:
    """Tell the story of one InferenceDeployment of the cluster: decision, estimate, rejections, what runs."""
    body = live_object(namespace, name, ClusterAccess(kubeconfig, context))
    console = Console(width=None if sys.stdout.isatty() else 160)
    if body is None:
        console.print(f"There is no InferenceDeployment {namespace}/{name}.", highlight=False)
        sys.exit(EXIT_BAD_INPUT)
    _explain(console, body)


def _explain(console: Console, body: dict[str, Any]) -> None:
    status = body.get("status") or {}
    if status.get("observedGeneration") != body["metadata"].get("generation"):
        console.print("The operator has not seen the last change yet; this is the state before it.", style="yellow")
    for condition in status.get("conditions") or ():
        console.print(f"{condition['type']}={condition['status']} {condition['reason']}: {condition['message']}")
    print_details(console, status)
    for pool in status.get("pools") or ():
        serving = f"{pool['readyReplicas']}/{pool['replicas']} replicas, {pool['state']}"
        console.print(f"Pool {pool['name']}: {serving}{_learned(pool)}.", highlight=False)
    for small in status.get("tooSmall") or ():
        place = f"{small['gpuType']} x {small['tensorParallel']}"
        console.print(f"Proved too small: {place}, its engine got {small['kvTokens']} KV tokens.", highlight=False)
    live = status.get("rebalancing")
    if live:
        console.print(f"Rebalancing: {live['decision']} ({live['reason']}). {live['message']}", highlight=False)
        if live.get("proposal"):
            console.print(f"Proposal: {live['proposal']}", highlight=False, style="bold")


def _learned(pool: dict[str, Any]) -> str:
    """The engine's own figure beside the foretold one, where there is one."""
    reported, predicted = pool.get("kvTokensReported"), pool.get("kvTokensPredicted")
    if reported is None:
        return ""
    error = None if predicted is None else CapacityReading(predicted, reported).error_permille
    told = "" if error is None else f" (estimate {error_percent_text(error)})"
    return f", engine reports {reported} KV tokens{told}"


@cli.command()
def gpus() -> None:
    """List the GPU types that manifests and prices can name."""
    table = Table("TYPE", "USABLE GiB", "NODE LABEL", "$/h", "PRICE FROM", box=None)
    for gpu in load_gpu_types():
        price = ("-", "-") if gpu.price is None else (f"{gpu.price.usd_per_hour:.2f}", gpu.price.source)
        table.add_row(gpu.name, f"{gpu.usable_bytes / GIB:.2f}", ", ".join(gpu.product_labels), *price)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@cli.command()
def models() -> None:
    """List the models that are known without any network."""
    for name in catalogued_models():
        click.echo(name)


def main() -> None:
    """Entry point: our own errors become one sentence on stderr and exit status 2."""
    try:
        cli()
    except PlimsollError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)
