"""``plimsoll console``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from plimsoll.cli.cluster.cluster_options import with_cluster
from plimsoll.console.asked import fallback_namespace, grafana_root, needing_extra, settings_from, with_shared_options
from plimsoll.console.cluster_mode import check_in_cluster, check_local, with_cluster_mode


@click.command("console")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0 for any free port.")
@click.option("--allow-approvals", is_flag=True, help="Proposals can be answered in the console, under your name.")
@click.option("--grafana-url", help="A Grafana with the chart's dashboard, to link to. Default: no links.")
@with_shared_options
@with_cluster
@with_cluster_mode
def command(
    port: int,
    allow_approvals: bool,  # noqa: FBT001 - a flag of the command line
    grafana_url: str | None,
    namespaces: tuple[str, ...],
    prometheus_url: str | None,
    operator: str,
    kubeconfig: str | None,
    context: str | None,
    in_cluster: bool,  # noqa: FBT001 - a flag of the command line
    **front: Any,
) -> None:
    """Open the console of a cluster on this machine, with your own rights. Read-only by default."""
    (check_in_cluster if in_cluster else check_local)(front)
    settings = replace(
        settings_from(namespaces, prometheus_url, operator, kubeconfig, context),
        grafana_url=grafana_root(grafana_url),
        port=port,
        allow_approvals=allow_approvals,
    )
    with needing_extra("plimsoll console"):
        from plimsoll.console.in_cluster import front_of, serve_in_cluster  # noqa: PLC0415 - it needs the extra
        from plimsoll.console.serving import serve  # noqa: PLC0415 - it needs the extra
    if in_cluster:
        serve_in_cluster(settings, front_of(front))
    else:
        serve(settings, fallback_namespace(settings))
