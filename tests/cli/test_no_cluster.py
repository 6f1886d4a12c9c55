"""A command that needs a cluster says in one sentence that there is none, and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def ran(words: tuple[str, ...], kubeconfig: Path) -> tuple[int, str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    found = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "plimsoll", *words],
        cwd=ROOT, env=environment | {"KUBECONFIG": str(kubeconfig)}, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    return found.returncode, found.stdout, found.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_kubeconfig_it_is_one_sentence(name: str, tmp_path: Path) -> None:
    missing = tmp_path / "no-kubeconfig"
    status, out, said = ran(COMMANDS[name], missing)
    assert (status, out) == (2, "")
    assert said == (
        f"error: No cluster: there is no kubeconfig {missing}, and this process is in no pod. Set KUBECONFIG to the "
        "kubeconfig of a cluster.\n"
    )


@pytest.mark.parametrize("name", ["console", "explain", "top"])
def test_a_cluster_that_cannot_be_reached_is_one_sentence(name: str, tmp_path: Path) -> None:
    """Also of a command that would go on asking: a page or a picture that stays empty says nothing."""
    file = tmp_path / "config"
    file.write_text(f"{KUBECONFIG}current-context: here\n", encoding="utf-8")
    status, out, said = ran(COMMANDS[name], file)
    assert (status, out, len(said.splitlines())) == (2, "", 1)
    assert "no connection to 127.0.0.1:1 (Connection refused). It was asked with kubeconfig" in said


@pytest.mark.parametrize("name", ["explain", "run"])
@pytest.mark.parametrize(("text", "why"), [(KUBECONFIG, "current-context"), ("", ""), ("{", "while parsing")])
def test_a_kubeconfig_that_cannot_be_used_is_named_with_the_reason(
    name: str, text: str, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    file.write_text(text, encoding="utf-8")
    status, out, said = ran(COMMANDS[name], file)
    assert (status, out) == (2, "")
    assert said.startswith(f"error: No cluster: the kubeconfig {file} cannot be used (")
    assert why in said
    assert len(said.splitlines()) == 1


def test_a_context_that_is_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(f"{KUBECONFIG}current-context: here\n", encoding="utf-8")
    status, _, said = ran((*COMMANDS["explain"], "--context", "nowhere"), file)
    assert (status, len(said.splitlines())) == (2, 1)
    assert "context nowhere, cannot be used" in said
