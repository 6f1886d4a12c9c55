"""Whether a plan on a cluster asks the API server what it would store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from plimsoll.app.review.values import Bill, DeploymentWish, Means, Review
from plimsoll.cli.plans import live_plan
from tests.cli.conftest import Run

MANIFEST = json.dumps(
    {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"model": {"name": "Qwen/Qwen2.5-7B-Instruct"}, "contextLength": 4096, "concurrency": 8},
    }
)

EMPTY = Review((), Bill(Decimal(0), Decimal(0)))


@pytest.mark.parametrize(
    ("words", "expected"), [((), True), (("--dry-run",), True), (("--no-dry-run",), False)], ids=str
)
def test_the_api_server_is_asked_unless_the_option_says_no(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    words: Sequence[str],
    expected: bool,  # noqa: FBT001 - a parameter
) -> None:
    asked: list[bool] = []

    def review(wishes: Sequence[DeploymentWish], means: Means, *_: Any) -> Review:
        asked.append(means.dry_run)
        assert [wish.key.name for wish in wishes] == ["a"]
        return EMPTY

    monkeypatch.setattr(live_plan, "deciding_cluster", lambda *_: SimpleNamespace(review=review))
    status, out, _ = run("plan", "-f", "-", "-o", "json", *words, stdin=MANIFEST)
    assert (status, asked) == (0, [expected])
    assert json.loads(out)["changes"] == []
