"""``plimsoll approve``, with the options that ``plimsoll reject`` has, too."""

from __future__ import annotations

import click

from plimsoll.cli.cluster.answering import ProposalAnswer
from plimsoll.cli.cluster.options import ClusterAccess, with_cluster
from plimsoll.cli.later import cluster_of
from plimsoll.cli.options import OF_CONTEXT, option, output
from plimsoll.cli.screen import print_document


def answering(verdict: str, purpose: str) -> click.Command:
    """Return the command that gives this answer."""

    @click.command(verdict, help=purpose)
    @click.argument("name")
    @option("--proposal")
    @option("--namespace", note=OF_CONTEXT)
    @option("--reason")
    @output("table", "json")
    @with_cluster
    def command(
        name: str,
        proposal: str | None,
        namespace: str | None,
        reason: str | None,
        form: str,
        kubeconfig: str | None,
        context: str | None,
    ) -> None:
        answer = ProposalAnswer(verdict, name, namespace, proposal, reason)
        given = cluster_of(ClusterAccess(kubeconfig, context)).answer_proposal(answer)
        if form == "json":
            print_document(form, given.document())
        else:
            click.echo(given.text())

    return command


command = answering("approve", "Approve a proposal of one InferenceDeployment. The operator then carries it out.")
