"""The options of the console in a cluster, and what the command says about wrong ones."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest
from click.testing import CliRunner

from plimsoll.console import serving
from plimsoll.console.command import command
from plimsoll.console.guards import InCluster
from plimsoll.console.serving import Front
from plimsoll.console.settings import ConsoleSettings
from plimsoll.domain.errors import InvalidInput

HOST = "--public-host=console.example.org"


def refused(*words: str) -> str:
    result = CliRunner().invoke(command, words)
    assert isinstance(result.exception, InvalidInput), result
    return str(result.exception)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ConsoleSettings, Front]]:
    """Return the deployments that would be served."""
    found: list[tuple[ConsoleSettings, Front]] = []
    monkeypatch.setattr(serving, "serve_in_cluster", lambda settings, front: found.append((settings, front)))
    return found


@pytest.mark.parametrize(
    "word", [HOST, "--proxy=10.0.0.0/8", "--token-header=X-Id", f"--ca-file={__file__}", f"--tls-cert={__file__}"]
)
def test_options_for_a_cluster_are_refused_on_a_laptop(word: str) -> None:
    assert "add --in-cluster" in refused(word)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "--public-host"),
        ((HOST, f"--tls-cert={__file__}"), "--tls-cert and --tls-key together"),
        ((HOST, f"--tls-key={__file__}"), "--tls-cert and --tls-key together"),
        ((HOST, "--token-header=X-Id-Token"), "add --proxy"),
        ((HOST, "--proxy=10.0.0.1/8"), "Write a network as a CIDR"),
        ((HOST, "--proxy=everybody"), "Write a network as a CIDR"),
    ],
)
def test_what_cannot_be_meant_in_a_cluster_is_refused(
    words: tuple[str, ...], reason: str, served: list[tuple[ConsoleSettings, Front]]
) -> None:
    assert reason in refused("--in-cluster", *words)
    assert served == []


def test_the_whole_of_it_is_served(tmp_path: Path, served: list[tuple[ConsoleSettings, Front]]) -> None:
    file = tmp_path / "file.pem"
    file.write_text("a file")
    words = ["--in-cluster", HOST, "--proxy=10.0.0.0/8", "--proxy=fd00::/8", "--token-header=X-Id-Token", "-n", "chat"]
    files = [f"--tls-cert={file}", f"--tls-key={file}", f"--ca-file={file}"]
    result = CliRunner().invoke(command, [*words, *files], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    [(settings, front)] = served
    assert (settings.namespaces, settings.allow_approvals) == (("chat",), False)
    assert front == Front(
        guards=InCluster(
            frozenset({"console.example.org"}),
            (ip_network("10.0.0.0/8"), ip_network("fd00::/8")),
            "X-Id-Token",
        ),
        certificate=str(file),
        key=str(file),
        ca_file=str(file),
    )


def test_the_least_of_it_is_served(served: list[tuple[ConsoleSettings, Front]]) -> None:
    assert CliRunner().invoke(command, ["--in-cluster", HOST], catch_exceptions=False).exit_code == 0
    [(_, front)] = served
    assert front == Front(InCluster(frozenset({"console.example.org"}), (), "Authorization"), None, None, None)
