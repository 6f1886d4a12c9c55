"""``plimsoll plan --fleet --observations``: the estimates of a plan use what engines taught, and say so."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from testbed.fleet import gpu_node
from tests.cli.conftest import Run, deployments
from tests.support.start_logs import MODEL, figures_0_11_0, log_0_11_0


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump(gpu_node("n0", "H100-80GB-HBM3", 8)), encoding="utf-8")
    return str(path)


@pytest.fixture
def kept(run: Run, tmp_path: Path) -> str:
    """Observations of an engine that got 10 GiB less than the law says."""
    log, file = tmp_path / "startup.log", tmp_path / "kept.json"
    log.write_text(log_0_11_0(*figures_0_11_0(45.0)), encoding="utf-8")
    status, _, said = run("learn", str(log), "--gpu", "h100-sxm-80gb", "--save", str(file))
    assert status == 0, said
    return str(file)


def manifest(folder: Path, name: str, release: str) -> str:
    path = folder / f"{name}.yaml"
    spec = {
        "model": {"name": MODEL},
        "contextLength": 32768,
        "concurrency": 4,
        "engine": {"version": release},
        "overrides": {"gpuType": "h100-sxm-80gb", "tensorParallel": 1},
    }
    head = {"name": name, "namespace": "chat"}
    body = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": head, "spec": spec}
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    return str(path)


def test_a_plan_uses_the_observations_of_its_kind_and_names_them(
    run: Run, fleet: str, kept: str, tmp_path: Path
) -> None:
    files = ("-f", manifest(tmp_path, "same", "0.11.0"), "-f", manifest(tmp_path, "other", "0.12.0"))
    status, out, said = run("plan", *files, "--fleet", fleet, "--observations", kept, "-o", "json")
    plain_status, plain_out, plain_said = run("plan", *files, "--fleet", fleet, "-o", "json")
    assert (status, plain_status) == (0, 0), said
    taught, plain = ({each["name"]: each["estimate"] for each in deployments(text)} for text in (out, plain_out))
    assert taught["same"] != plain["same"]
    assert taught["other"] == plain["other"]
    notes = [line for line in said.splitlines() if "Learned on" in line]
    assert len(notes) == 1, said
    assert notes[0].startswith("note: chat/same: Learned on h100-sxm-80gb x 1 from 1 engine")
    assert "Learned on" not in plain_said


@pytest.mark.parametrize(
    ("words", "why"), [((), "use it with --fleet"), (("--what-if", "+1 h100-sxm-80gb"), "--what-if out")]
)
def test_observations_that_would_not_count_are_refused(
    run: Run, fleet: str, kept: str, tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    source = ("--fleet", fleet) if words else ()
    asked = ("plan", "-f", manifest(tmp_path, "same", "0.11.0"), *source, *words, "--observations", kept)
    status, _, said = run(*asked)
    assert status == 2
    assert why in said
