"""``plimsoll plan`` as a process of its own, against a control plane."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def plan(kubeconfig: Path, manifests: Sequence[Mapping[str, Any]], *words: str) -> Said:
    """Run the command on manifests from standard input."""
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": list(manifests)})
    ran = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "plimsoll", "plan", "-f", "-", "-o", "json", *words],
        input=text,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "PLIMSOLL_STRANDED_SECONDS": "2"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    try:
        return Said(ran.returncode, json.loads(ran.stdout or '{"changes": []}'), ran.stderr)
    except ValueError as error:
        raise AssertionError(f"no JSON: {ran.stdout} {ran.stderr}") from error
