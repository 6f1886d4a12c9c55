"""The options of ``plimsoll approve`` and ``plimsoll reject``."""

from __future__ import annotations

import click

from plimsoll.cli.cluster.answering import Answer
from plimsoll.cli.cluster.options import ClusterAccess, with_cluster
from plimsoll.cli.later import answer_proposal


def answering(verdict: str, purpose: str) -> click.Command:
    """Return the command that gives this answer."""

    @click.command(verdict, help=purpose)
    @click.argument("name")
    @click.option("--proposal", metavar="ID", help="Id of the proposal, where there are several.")
    @click.option("-n", "--namespace", help="As for kubectl.")
    @click.option("--reason", metavar="TEXT", help="Why, for those who read it later.")
    @with_cluster
    def command(
        name: str,
        proposal: str | None,
        namespace: str | None,
        reason: str | None,
        kubeconfig: str | None,
        context: str | None,
    ) -> None:
        access = ClusterAccess(kubeconfig, context)
        answer = Answer(verdict, name, namespace, proposal, reason)
        click.echo(answer_proposal(answer, access.file, access.context))

    return command
