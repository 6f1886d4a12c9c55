"""The places that engineers sign, and why the cheaper ones are not taken.

The goldens are written by a script, so a change of the planner changes them too. These lines are written by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scripts.update_goldens import STORIES
from tests.support.tables import every_case

LARGE = "what-engineers-sign-for-large-loads"

SIGNED = [
    ("what-engineers-sign", "llama-70b-bf16", "a100-sxm-80gb-tp4", {"l40s-48gb x 8": "TPOT of 458 ms"}),
    ("what-engineers-sign", "llama-70b-fp8", "a100-sxm-80gb-tp2", {"l4-24gb x 8": "TTFT of 17,367 ms"}),
    (
        "what-engineers-sign",
        "llama-70b-awq",
        "h100-sxm-80gb-tp1",
        {
            "l4-24gb x 4": "TPOT of 121 ms",
            "t4-16gb x 8": "TTFT of 42,597 ms",
            "l40s-48gb x 2": "TPOT of 56 ms",
            "a100-sxm-80gb x 1": "TPOT of 55 ms",
        },
    ),
    ("what-engineers-sign", "gpt-oss-120b", "a100-sxm-80gb-tp2", {"l4-24gb x 8": "TPOT of 104 ms"}),
    ("what-engineers-sign", "llama-8b", "l40s-48gb-tp1", {"l4-24gb x 2": "TPOT of 51 ms"}),
    (LARGE, "qwen3-32b", "a100-sxm-80gb-tp8", {"l40s-48gb x 8": "TPOT of 474 ms", "h100-sxm-80gb x 8": "$24.64/h"}),
    (LARGE, "qwen3-32b-fp8-cache", "a100-sxm-80gb-tp4", {"h100-sxm-80gb x 4": "$12.32/h"}),
    (LARGE, "qwen3-32b-expected", "h100-sxm-80gb-tp2", {"a100-sxm-80gb x 2": "TPOT of 60 ms"}),
    (
        LARGE,
        "qwen3-235b",
        "h100-sxm-80gb-tp8",
        {
            "a100-sxm-80gb x 4 x 2 stages": "TPOT of 27 ms",
            "a100-sxm-80gb x 8 with whole experts": "TPOT of 28 ms",
            "h100-sxm-80gb x 8": "192 columns",
            "h100-sxm-80gb x 4 x 2 stages": "same price",
        },
    ),
    (LARGE, "llama-8b", "a100-sxm-80gb-tp1", {"l4-24gb x 4": "TPOT of 120 ms", "h100-sxm-80gb x 1": "$3.08/h"}),
]


def outcome(story: str, name: str) -> dict[str, Any]:
    found = yaml.safe_load((STORIES / story / "expected.yaml").read_text(encoding="utf-8"))["deployments"]
    return next(each for each in found if each["name"] == name)


@every_case(("story", "name", "pool", "others"), SIGNED, ids=[each[1] for each in SIGNED])
def test_the_place_is_the_one_that_engineers_sign_and_the_others_are_refused_with_figures(
    story: str, name: str, pool: str, others: dict[str, str]
) -> None:
    found = outcome(story, name)
    assert list(found["replicas"]) == [pool]
    assert {place: words for place, words in others.items() if words not in found["notTaken"][place]} == {}


@pytest.mark.parametrize("story", ["what-engineers-sign", LARGE])
def test_every_deployment_of_the_stories_has_a_limit_and_is_among_the_signed(story: str) -> None:
    asked = list(yaml.safe_load_all((STORIES / story / "request.yaml").read_text(encoding="utf-8")))
    assert all("tpotMilliseconds" in each["spec"]["slo"] for each in asked)
    assert {each["metadata"]["name"] for each in asked} == {name for of, name, *_ in SIGNED if of == story}


def test_reserving_full_lengths_gets_both_changes_that_halve_the_bill() -> None:
    fp8, expected = "set spec.kvCache.precision to fp8", "set spec.expectedTokens"
    advice = outcome(LARGE, "qwen3-32b")["wouldBeCheaper"]
    assert all("a100-sxm-80gb x 4, which saves $6.40/h" in each for each in advice)
    assert [any(change in each for each in advice) for change in (fp8, expected)] == [True, True]


def test_a_declared_total_takes_few_large_replicas() -> None:
    found = outcome(LARGE, "llama-8b")
    assert found["size"].startswith("Size: 3 replicas of 54 requests on a100-sxm-80gb x 1: $4.80/h")
    assert found["hourlyPrice"] == "4.80"
