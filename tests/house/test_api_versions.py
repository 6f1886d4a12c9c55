"""Every later release of an API version takes the manifests of today: docs/api-versions.md."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from scripts import kept_api
from scripts.kept_api import KEPT, READ_AS, main, narrowed, now


@pytest.mark.parametrize("kind", ["InferenceDeployment", "PlacementApproval"])
def test_every_manifest_of_the_kept_api_is_one_of_today(kind: str) -> None:
    assert list(narrowed(json.loads(KEPT.read_text())[kind], now()[kind])) == []


def test_every_kind_of_narrowing_is_found() -> None:
    before = now()["InferenceDeployment"]
    context, precision = "spec.contextLength", "spec.precision"

    def found(path: str, **change: Any) -> list[str]:
        after = copy.deepcopy(before)
        after[path] |= change
        return list(narrowed(before, after))

    assert found(context, maximum=10) == [f"{context}: maximum fell"]
    assert found(context, minimum=10) == [f"{context}: minimum rose"]
    assert len(found(context, type="string")) == 1
    assert found(context, enum=[1]) == [f"{context}: only some values are left"]
    assert found("spec.engine.version", **{READ_AS: {"vllm": "0.33.0", "sglang": "0.5.23"}}) == [
        "spec.engine.version: vllm means 0.33.0"
    ]
    assert len(found(precision, enum=["auto"])) == len(found(precision, default="fp8")) == 1
    assert found("spec", required=[*before["spec"]["required"], "slo"]) == ["spec: ['slo'] became required"]
    assert list(narrowed(before, {path: each for path, each in before.items() if path != context})) == [
        f"{context} is gone"
    ]


def test_a_wider_api_is_no_narrower_one() -> None:
    before = now()["InferenceDeployment"]
    after = copy.deepcopy(before)
    after["spec.contextLength"] |= {"maximum": 10**12, "minimum": 0}
    after["spec.precision"]["enum"] = [*before["spec.precision"]["enum"], "fp4"]
    after["spec.engine.version"][READ_AS]["abacus"] = "1.0.0"
    after["spec.new"] = {"type": "string"}
    assert list(narrowed(before, after)) == []


def test_a_release_adds_its_fields_and_takes_none_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_api, "KEPT", tmp_path / "kept.json")
    older = now()
    del older["InferenceDeployment"]["spec.objective"]
    kept_api.KEPT.write_text(json.dumps(older))
    assert main() == 0
    assert json.loads(kept_api.KEPT.read_text()) == now()

    older["InferenceDeployment"]["spec.gone"] = {"type": "string"}
    kept_api.KEPT.write_text(json.dumps(older))
    assert main() == 1
    assert json.loads(kept_api.KEPT.read_text()) == older
