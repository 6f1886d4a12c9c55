"""``plimsoll explain``."""

from __future__ import annotations

import time

import click

from plimsoll.cli.cluster.options import ClusterAccess, with_cluster
from plimsoll.cli.later import cluster_of, default_namespace
from plimsoll.cli.options import OF_CONTEXT, option, output
from plimsoll.cli.plans.story import print_story, story_document
from plimsoll.cli.screen import print_document, screen
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey


@click.command("explain")
@click.argument("name")
@option("--namespace", note=OF_CONTEXT)
@output("table", "json")
@with_cluster
def command(name: str, namespace: str | None, form: str, kubeconfig: str | None, context: str | None) -> None:
    """Tell the story of one InferenceDeployment of the cluster: decision, estimate, rejections, what runs."""
    access = ClusterAccess(kubeconfig, context)
    key = ObjectKey(namespace or default_namespace(access.file, access.context), name)
    body = cluster_of(access).inference_deployment(key)
    if body is None:
        raise InvalidInput(
            "NAME", name, f"There is no InferenceDeployment {key}: name another one, or its namespace with -n."
        )
    if form == "json":
        print_document(form, story_document(body))
    else:
        print_story(screen(), body, time.time())
