"""``plimsoll approve``, with the options that ``plimsoll reject`` has, too."""

from __future__ import annotations

import click

from plimsoll.cli.cluster.answering import ProposalAnswer
from plimsoll.cli.cluster.options import ClusterAccess, with_cluster
from plimsoll.cli.later import cluster_of
from plimsoll.cli.options import OF_CONTEXT, option


def answering(verdict: str, purpose: str) -> click.Command:
    """Return the command that gives this answer."""

    @click.command(verdict, help=purpose)
    @click.argument("name")
    @option("--proposal")
    @option("--namespace", note=OF_CONTEXT)
    @option("--reason")
    @with_cluster
    def command(
        name: str,
        proposal: str | None,
        namespace: str | None,
        reason: str | None,
        kubeconfig: str | None,
        context: str | None,
    ) -> None:
        answer = ProposalAnswer(verdict, name, namespace, proposal, reason)
        click.echo(cluster_of(ClusterAccess(kubeconfig, context)).answer_proposal(answer))

    return command


command = answering("approve", "Approve a proposal of one InferenceDeployment. The operator then carries it out.")
