"""``plimsoll acknowledge``."""

from __future__ import annotations

import click

from plimsoll.cli.cluster.acknowledging import FindingAnswer
from plimsoll.cli.cluster.options import ClusterAccess, with_cluster
from plimsoll.cli.later import cluster_of
from plimsoll.cli.options import OF_CONTEXT, option, output
from plimsoll.cli.screen import print_document


@click.command("acknowledge")
@click.argument("name")
@option("--until", required=True)
@option("--finding")
@option("--namespace", note=OF_CONTEXT)
@option("--reason")
@output("table", "json")
@with_cluster
def command(
    name: str,
    until: str,
    finding: str | None,
    namespace: str | None,
    reason: str | None,
    form: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Say that you know what is wrong with one InferenceDeployment: its alert rests for a while."""
    answer = FindingAnswer(name, until, namespace, finding, reason)
    given = cluster_of(ClusterAccess(kubeconfig, context)).acknowledge(answer)
    if form == "json":
        print_document(form, given.document())
    else:
        click.echo(given.text())
