"""``plimsoll top``."""

from __future__ import annotations

import click

from plimsoll.cli.cluster.options import with_cluster
from plimsoll.cli.options import option
from plimsoll.cli.screen import screen
from plimsoll.console.asked import fallback_namespace, needing_extra, settings_from, with_shared_options


@click.command("top")
@option("--seconds", default=2.0, show_default=True)
@option("--once")
@with_shared_options
@with_cluster
def command(
    seconds: float,
    once: bool,  # noqa: FBT001 - a flag of the command line
    namespaces: tuple[str, ...],
    prometheus_url: str | None,
    operator: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Show the fleet and its deployments in the terminal, worst first, and keep it fresh."""
    settings = settings_from(namespaces, prometheus_url, operator, kubeconfig, context)
    with needing_extra("plimsoll top"):
        from plimsoll.console.top.frame import watch  # noqa: PLC0415 - it needs the extra
    watch(screen(), settings, fallback_namespace(settings), seconds=seconds, is_once=once)
