"""``plimsoll fleet export``."""

from __future__ import annotations

from pathlib import Path

import click

from plimsoll.app.exports.document import text_of
from plimsoll.app.review.values import Means
from plimsoll.cli.cluster.options import ClusterAccess, with_cluster
from plimsoll.cli.later import deciding_cluster
from plimsoll.cli.options import CommandGroup, option
from plimsoll.cli.reading.files import STDIN
from plimsoll.cli.reading.model_sources import hub_access
from plimsoll.cli.screen import say, waiting
from plimsoll.domain.errors import InvalidInput


@click.group("fleet", cls=CommandGroup)
def command() -> None:
    """Work with the state of a whole cluster."""


@command.command("export")
@option("--hash-names")
@option("--save", "file", note="Default: standard output.", default=STDIN)
@with_cluster
def write(hash_names: bool, file: str, kubeconfig: str | None, context: str | None) -> None:  # noqa: FBT001 - a flag
    """Write everything that the operator's decision reads into one JSON file.

    The file holds no Secrets and no values of variables. `plimsoll plan --snapshot FILE` and
    `plimsoll capacity MODEL --snapshot FILE` decide on that file as the operator would have done at that time, without
    a cluster. The command changes nothing.

    Exit status: 0 the file is written, 2 the cluster cannot be read or the file cannot be written.
    """
    with waiting("reading the cluster"):
        found = deciding_cluster(ClusterAccess(kubeconfig, context)).export(Means(*hub_access()), hash_names=hash_names)
    say("note", found.notes)
    text = text_of(found)
    if file == STDIN:
        click.echo(text, nl=False)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput("--save", file, f"It cannot be written: {error}.") from error
    click.echo(f"{len(found.bodies)} objects are in {file}. Replay: plimsoll plan --snapshot {file} -f FILE", err=True)
