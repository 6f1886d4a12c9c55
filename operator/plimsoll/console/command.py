"""``plimsoll console``."""

from __future__ import annotations

import os

import click

from plimsoll.cli.cluster_access import ClusterAccess
from plimsoll.cli.cluster_options import with_cluster
from plimsoll.cli.later import MissingExtra, default_namespace
from plimsoll.console.settings import ConsoleSettings


@click.command("console")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0 for any free port.")
@click.option("-n", "--namespace", "namespaces", multiple=True, help="Show this namespace only; may be repeated.")
@click.option("--prometheus-url", help="Where live use is read. Default: $PLIMSOLL_PROMETHEUS_URL, else no live marks.")
@click.option("--allow-approvals", is_flag=True, help="Proposals can be answered in the console, under your name.")
@with_cluster
def command(
    port: int,
    namespaces: tuple[str, ...],
    prometheus_url: str | None,
    allow_approvals: bool,  # noqa: FBT001 - a flag of the command line
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Open the console of a cluster on this machine, with your own rights. Read-only by default."""
    access = ClusterAccess(kubeconfig, context)
    settings = ConsoleSettings(
        port=port,
        kubeconfig=access.file,
        context=context,
        namespaces=namespaces,
        prometheus_url=prometheus_url or os.environ.get("PLIMSOLL_PROMETHEUS_URL") or None,
        allow_approvals=allow_approvals,
    )
    fallback = default_namespace(access.file, context)
    try:
        from plimsoll.console.serving import serve  # noqa: PLC0415 - it needs the extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("", "plimsoll"):
            raise
        raise MissingExtra(
            f"The console needs {error.name}, which is not installed. Run: pip install 'plimsoll[console]'"
        ) from error
    serve(settings, fallback)
