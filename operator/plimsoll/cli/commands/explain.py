"""``plimsoll explain``."""

from __future__ import annotations

import sys

import click

from plimsoll.cli.cluster.options import ClusterAccess, with_cluster
from plimsoll.cli.later import cluster_of, default_namespace
from plimsoll.cli.options import OF_CONTEXT, option
from plimsoll.cli.plans.story import print_story
from plimsoll.cli.process import EXIT_BAD_INPUT
from plimsoll.cli.screen import print_lines, screen
from plimsoll.domain.kubernetes_names import ObjectKey


@click.command("explain")
@click.argument("name")
@option("--namespace", note=OF_CONTEXT)
@with_cluster
def command(name: str, namespace: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Tell the story of one InferenceDeployment of the cluster: decision, estimate, rejections, what runs."""
    access = ClusterAccess(kubeconfig, context)
    key = ObjectKey(namespace or default_namespace(access.file, access.context), name)
    body = cluster_of(access).inference_deployment(key)
    console = screen()
    if body is None:
        print_lines(console, (f"There is no InferenceDeployment {key}.",))
        sys.exit(EXIT_BAD_INPUT)
    print_story(console, body)
