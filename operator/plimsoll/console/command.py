"""``plimsoll console``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from plimsoll.cli.cluster_access import ClusterAccess
from plimsoll.cli.cluster_options import with_cluster
from plimsoll.cli.later import MissingExtra, default_namespace
from plimsoll.console.cluster_mode import check_in_cluster, check_local, with_cluster_mode
from plimsoll.console.settings import ConsoleSettings


@click.command("console")
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="0 for any free port.")
@click.option("-n", "--namespace", "namespaces", multiple=True, help="Show this namespace only; may be repeated.")
@click.option("--prometheus-url", help="Where live use is read. Default: $PLIMSOLL_PROMETHEUS_URL, else no live marks.")
@click.option("--allow-approvals", is_flag=True, help="Proposals can be answered in the console, under your name.")
@with_cluster
@with_cluster_mode
def command(
    port: int,
    namespaces: tuple[str, ...],
    prometheus_url: str | None,
    allow_approvals: bool,  # noqa: FBT001 - a flag of the command line
    kubeconfig: str | None,
    context: str | None,
    in_cluster: bool,  # noqa: FBT001 - a flag of the command line
    **front: Any,
) -> None:
    """Open the console of a cluster on this machine, with your own rights. Read-only by default."""
    (check_in_cluster if in_cluster else check_local)(front)
    access = ClusterAccess(kubeconfig, context)
    settings = ConsoleSettings(
        port=port,
        kubeconfig=access.file,
        context=context,
        namespaces=namespaces,
        prometheus_url=prometheus_url or os.environ.get("PLIMSOLL_PROMETHEUS_URL") or None,
        allow_approvals=allow_approvals,
    )
    with _extra():
        from plimsoll.console.in_cluster import front_of, serve_in_cluster  # noqa: PLC0415 - it needs the extra
        from plimsoll.console.serving import serve  # noqa: PLC0415 - it needs the extra
    if in_cluster:
        serve_in_cluster(settings, front_of(front))
    else:
        serve(settings, default_namespace(access.file, context))


@contextmanager
def _extra() -> Iterator[None]:
    """Say how to install what an import does not find."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("", "plimsoll"):
            raise
        raise MissingExtra(
            f"The console needs {error.name}, which is not installed. Run: pip install 'plimsoll[console]'"
        ) from error
