"""``plimsoll top``."""

from __future__ import annotations

import click

from plimsoll.cli.cluster_options import with_cluster
from plimsoll.cli.screen import screen
from plimsoll.console.asked import fallback_namespace, needing_extra, settings_from


@click.command("top")
@click.option("-n", "--namespace", "namespaces", multiple=True, help="Show this namespace only; may be repeated.")
@click.option("--prometheus-url", help="Where live use is read. Default: $PLIMSOLL_PROMETHEUS_URL, else no live use.")
@click.option("--seconds", default=2.0, show_default=True, type=click.FloatRange(0.5, 3600), help="Between pictures.")
@click.option("--once", is_flag=True, help="Print one picture and end.")
@with_cluster
def command(
    namespaces: tuple[str, ...],
    prometheus_url: str | None,
    seconds: float,
    once: bool,  # noqa: FBT001 - a flag of the command line
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Show the fleet and its deployments in the terminal, worst first, and keep it fresh."""
    settings = settings_from(namespaces, prometheus_url, kubeconfig, context)
    with needing_extra("plimsoll top"):
        from plimsoll.console.top.watching import watch  # noqa: PLC0415 - it needs the extra
    watch(screen(), settings, fallback_namespace(settings), seconds=seconds, is_once=once)
