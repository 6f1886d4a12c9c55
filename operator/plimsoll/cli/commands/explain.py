"""``plimsoll explain``."""

from __future__ import annotations

import sys

import click

from plimsoll.cli.cluster.options import ClusterAccess, with_cluster
from plimsoll.cli.later import cluster_of
from plimsoll.cli.plans.story import print_story
from plimsoll.cli.process import EXIT_BAD_INPUT
from plimsoll.cli.screen import screen
from plimsoll.domain.kubernetes_names import ObjectKey


@click.command("explain")
@click.argument("name")
@click.option("-n", "--namespace", default="default", show_default=True)
@with_cluster
def command(name: str, namespace: str, kubeconfig: str | None, context: str | None) -> None:
    """Tell the story of one InferenceDeployment of the cluster: decision, estimate, rejections, what runs."""
    body = cluster_of(ClusterAccess(kubeconfig, context)).inference_deployment(ObjectKey(namespace, name))
    console = screen()
    if body is None:
        console.print(f"There is no InferenceDeployment {namespace}/{name}.", highlight=False)
        sys.exit(EXIT_BAD_INPUT)
    print_story(console, body)
