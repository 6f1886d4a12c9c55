"""``plimsoll top``."""

from __future__ import annotations

import click

from plimsoll.cli.cluster.options import with_cluster
from plimsoll.cli.options import option, output
from plimsoll.cli.screen import screen
from plimsoll.console.asked import needing_extra, reached_namespace, settings_from, with_shared_options


@click.command("top")
@option("--seconds", default=2.0, show_default=True)
@option("--once", note="With -o json it always does.")
@output("table", "json")
@with_shared_options
@with_cluster
def command(
    seconds: float,
    once: bool,  # noqa: FBT001 - a flag of the command line
    form: str,
    namespaces: tuple[str, ...],
    prometheus_url: str | None,
    operator: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Show the fleet and its deployments in the terminal, worst first, and keep it fresh."""
    settings = settings_from(namespaces, prometheus_url, operator, kubeconfig, context)
    with needing_extra("plimsoll top"):
        from plimsoll.console.top.frame import Pictures, documented, printed, watch  # noqa: PLC0415 - it needs the extra
    shown = printed if form == "table" else documented
    pictures = Pictures(screen(), seconds, shown if once or form != "table" else None)
    watch(settings, reached_namespace(settings), pictures)
