"""A command that needs a cluster says in one sentence that there is none, and what to do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from testbed.processes import Child
from testbed.waiting import wait_until
from tests.support.alone import ROOT

COMMANDS = {
    "acknowledge": ("acknowledge", "llama", "--until", "4h"),
    "approve": ("approve", "llama"),
    "capacity": ("capacity", "Qwen/Qwen3-8B"),
    "console": ("console", "--port", "0"),
    "estimate": ("estimate", "Qwen/Qwen3-8B", "--from-cluster"),
    "explain": ("explain", "llama"),
    "fleet": ("fleet", "export"),
    "plan": ("plan", "-f", "examples/01-minimal/deployment.yaml"),
    "reject": ("reject", "llama"),
    "run": ("run",),
    "top": ("top", "--once"),
}

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: c, user: u, namespace: team}}]
users: [{name: u, user: {token: t}}]
"""


def ran(words: tuple[str, ...], kubeconfig: Path) -> tuple[int | None, str]:
    """Run the command in a process of its own; returns its exit status, and all that it has printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    environment["KUBECONFIG"] = str(kubeconfig)
    log = kubeconfig.with_name("printed")
    command = [sys.executable, "-m", "plimsoll", *words]
    child = Child("plimsoll", command, log=log, environment=environment, directory=ROOT)
    child.start()
    wait_until(lambda: not child.is_running, 120.0, f"the end of plimsoll {words[0]}")
    return child.exit_status, log.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_kubeconfig_it_is_one_sentence(name: str, tmp_path: Path) -> None:
    missing = tmp_path / "no-kubeconfig"
    status, said = ran(COMMANDS[name], missing)
    assert status == 2
    assert said == (
        f"error: No cluster: there is no kubeconfig {missing}, and this process is in no pod. Set KUBECONFIG to the "
        "kubeconfig of a cluster.\n"
    )


@pytest.mark.parametrize("name", ["console", "explain", "top"])
def test_a_cluster_that_cannot_be_reached_is_one_sentence(name: str, tmp_path: Path) -> None:
    """Also of a command that would go on asking: a page or a picture that stays empty says nothing."""
    file = tmp_path / "config"
    file.write_text(f"{KUBECONFIG}current-context: here\n", encoding="utf-8")
    status, said = ran(COMMANDS[name], file)
    assert (status, len(said.splitlines())) == (2, 1)
    assert "no connection to 127.0.0.1:1 (Connection refused). It was asked with kubeconfig" in said


@pytest.mark.parametrize("name", ["explain", "run"])
@pytest.mark.parametrize(("text", "why"), [(KUBECONFIG, "current-context"), ("", ""), ("{", "while parsing")])
def test_a_kubeconfig_that_cannot_be_used_is_named_with_the_reason(
    name: str, text: str, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    file.write_text(text, encoding="utf-8")
    status, said = ran(COMMANDS[name], file)
    assert status == 2
    assert said.startswith(f"error: No cluster: the kubeconfig {file} cannot be used (")
    assert why in said
    assert len(said.splitlines()) == 1


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(f"{KUBECONFIG}current-context: here\n", encoding="utf-8")
    status, said = ran((*COMMANDS["explain"], "--context", "nowhere"), file)
    assert (status, len(said.splitlines())) == (2, 1)
    assert "context nowhere, cannot be used" in said
