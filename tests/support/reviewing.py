"""``plimsoll plan`` against a control plane."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from plimsoll.cli.main import main
from tests.support.faulty import IMPATIENT

WIDTH = 200
"""Columns of the terminal: each row of a table is one line there."""

PATIENCE_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Said:
    """The exit status of the command, its JSON, and what it wrote to standard error."""

    status: int
    document: Mapping[str, Any]
    errors: str

    def change(self, name: str) -> Mapping[str, Any]:
        """The entry of one InferenceDeployment; empty if it is not shown."""
        return next((each for each in self.document["changes"] if each["name"] == name), {})

    def word(self, name: str) -> str:
        """The verdict on one InferenceDeployment; empty if it is not shown."""
        return str(self.change(name).get("change", ""))

    def places(self, name: str, when: str = "after") -> list[tuple[str, int, int]]:
        """GPU type, tensor-parallel degree and replicas."""
        return [(each["gpuType"], each["tensorParallel"], each["replicas"]) for each in self.change(name)[when]]


@dataclass(frozen=True, slots=True)
class Shown:
    """The exit status of the command and what it printed."""

    status: int
    text: str
    errors: str


def plan(kubeconfig: Path, manifests: Sequence[Mapping[str, Any]], *words: str) -> Said:
    """Run the command on manifests from standard input, and read its JSON."""
    return _said(shown(kubeconfig, manifests, "json", *words))


def what_if(kubeconfig: Path, text: str) -> Said:
    """Run the command without any manifest."""
    return _said(_run(kubeconfig, ["-o", "json", "--what-if", text], ""))


def _said(ran: Shown) -> Said:
    try:
        return Said(ran.status, json.loads(ran.text or '{"changes": []}'), ran.errors)
    except ValueError as error:
        raise AssertionError(f"no JSON: {ran}") from error


def shown(kubeconfig: Path, manifests: Sequence[Mapping[str, Any]], form: str, *words: str) -> Shown:
    """Run the command on manifests from standard input."""
    return _run(kubeconfig, ["-f", "-", "-o", form, *words], _list_of(manifests))


def export(kubeconfig: Path, file: Path, *words: str) -> Shown:
    """Write a snapshot of the cluster."""
    return _run(kubeconfig, ["export", "--save", str(file), *words], "", "fleet")


def plan_snapshot(file: Path, manifests: Sequence[Mapping[str, Any]]) -> Said:
    """Run the command on a snapshot, without any cluster. Without manifests it is about all objects of the snapshot."""
    named = ["-f", "-"] if manifests else []
    return _said(_run(Path("/nonexistent"), ["--snapshot", str(file), *named, "-o", "json"], _list_of(manifests)))


def piped(kubeconfig: Path, manifests: Sequence[Mapping[str, Any]]) -> Said:
    """:func:`plan` as a pipeline runs it: a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "plimsoll", "plan", "-f", "-", "-o", "json"],
        input=_list_of(manifests),
        env={**os.environ, **_environment(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return _said(Shown(ran.returncode, ran.stdout, ran.stderr))


def run_here(kubeconfig: Path, name: str, *words: str) -> Shown:
    """Run a command without standard input."""
    return _run(kubeconfig, words, "", name)


def _run(kubeconfig: Path, words: Sequence[str], text: str, name: str = "plan") -> Shown:
    """Run a command in this process: a process of its own takes 2 s of CPU time to import everything."""
    printed, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, _environment(kubeconfig)),
        patch.object(sys, "argv", ["plimsoll", name, *words]),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()))),
        redirect_stdout(printed),
        redirect_stderr(errors),
        pytest.raises(SystemExit) as left,
    ):
        main()
    return Shown(int(left.value.code or 0), printed.getvalue(), errors.getvalue())


def _environment(kubeconfig: Path) -> dict[str, str]:
    return {"KUBECONFIG": str(kubeconfig), "COLUMNS": str(WIDTH), **IMPATIENT}


def _list_of(manifests: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"kind": "List", "apiVersion": "v1", "items": list(manifests)})
