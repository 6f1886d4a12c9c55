"""The figures of pages are those of the status, of ``plimsoll explain`` and of ``plimsoll plan -o json``."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from rich.console import Console

from plimsoll.api.v1alpha1.status import CandidateFiguresStatus
from plimsoll.app.review.values import ReviewVerdict
from plimsoll.cli.answers.sentences import sentences
from plimsoll.cli.plans.story import print_story
from plimsoll.cli.plans.tables import print_details
from plimsoll.console.sources.commands import Ran
from plimsoll.console.views.figures import figures_of_estimate, figures_of_status
from plimsoll.console.views.rows import row_of
from plimsoll.console.views.states import mark_of
from plimsoll.console.views.what_if import answer_of
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.units import GIB
from plimsoll.placement.options.sizing import Sized
from tests.support.console_pages import (
    H100_NODE,
    L4_NODE,
    Saying,
    chat,
    deployment_page,
    opened,
    view_of,
    visit_of,
)
from tests.support.proposals import Seen
from tests.support.rendered import VARIANTS, choice_of, example, fleet_of, plan_one
from tests.support.tables import every_case


def gib(size: int) -> str:
    return f"{size / GIB:.1f}"


def explained() -> str:
    out = io.StringIO()
    print_story(Console(file=out, width=200), chat(), 0.0)
    return out.getvalue()


def test_explain_and_the_console_name_the_same_state() -> None:
    mark = mark_of(row_of(chat()))
    assert f"State: {mark.word} ({mark.severity.name.lower()})." in explained()


async def test_the_deployments_page_has_the_figures_of_the_status() -> None:
    estimate, seen = chat()["status"]["estimate"], await deployment_page(chat())
    other = estimate["cudaGraphsBytes"] + estimate["overheadBytes"]
    lower, upper = estimate["expectedBytes"] - estimate["slackBytes"], estimate["computedBytes"]
    for words in (
        (
            f"needs {gib(lower)} to {gib(upper)} GiB (weights {gib(estimate['weightsBytes'])}, "
            f"KV cache {gib(estimate['kvCacheBytes'])}, activations {gib(estimate['activationsBytes'])}, "
            f"graphs and overhead {gib(other)})"
        ),
        f"load line at {gib(estimate['budgetBytes'])} of {gib(estimate['usableBytes'])} GiB",
        f"{gib(estimate['budgetBytes'] - upper)} GiB spare",
        (
            f"{estimate['kvCapacityTokens']:,} tokens fit ({estimate['kvCapacityLowTokens']:,} to "
            f"{estimate['kvCapacityHighTokens']:,} by the error band); the load needs {estimate['kvNeededTokens']:,}"
        ),
        "$0.42/h for all replicas, from catalog",
        "vLLM 0.32.0, 92 % utilization, 6 sequences, 2,048 tokens a step",
    ):
        assert words in seen.text, words


async def test_the_page_and_explain_say_the_same_bytes() -> None:
    seen, explanation = await deployment_page(chat()), explained()
    status = chat()["status"]
    for name in ("weights", "KV cache", "activations"):
        (shown,) = set(re.findall(rf"[(, ]{name} ([\d.]+)[,)]", seen.text))
        (printed,) = re.findall(rf"^ *{name} +([\d.]+)", explanation, re.MULTILINE)
        assert float(shown) == pytest.approx(float(printed), abs=0.056)
    for each in status["rejections"]:
        assert each["reason"] in seen.text
        assert each["message"] in seen.text
        assert each["reason"] in explanation
        assert each["message"] in explanation
    for condition in status["conditions"]:
        assert condition["message"] in seen.text


def test_figures_of_a_status_are_those_of_the_estimate_it_was_rendered_from() -> None:
    planned = plan_one(example("01-minimal", {}), fleet_of(H100_NODE, L4_NODE))
    estimate = choice_of(planned).estimate
    status = planned.outcome().status.estimate
    assert status is not None
    of_core, of_status = figures_of_estimate(estimate), figures_of_status(status)
    assert of_core == of_status
    assert of_core.expected == estimate.expected_bytes
    assert of_core.upper == estimate.computed_bytes
    assert of_core.needed == estimate.needed_bytes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"kvCache": {"hostMemory": "64Gi"}},
            "64.00 GiB of host memory keep 524,288 tokens of finished requests, 1.1 times what the GPUs",
        ),
        (
            {"engine": {"weightStreaming": {"group": 8, "layers": 1, "prefetch": 1}}},
            "Host memory to GPU at 50 GB/s: a decoder layer of 0.406 GiB takes 8.72 ms.",
        ),
        (
            {"engine": {"cpuOffload": "4Gi"}},
            "Host memory to GPU at 50 GB/s: a decoder layer of 0.406 GiB takes 8.72 ms.",
        ),
    ],
)
async def test_page_plan_and_estimate_say_the_same_of_host_memory(changes: dict[str, Any], words: str) -> None:
    planned = plan_one(example("01-minimal", changes), fleet_of(H100_NODE))
    status, choice = planned.outcome().status, choice_of(planned)
    answer = Sized(choice.gpu, choice.split, choice.settings, choice.estimate)
    [said] = [each for each in sentences(planned.decision.request, answer) if each.startswith(words)]
    assert ("nothing hides that" in said) is ("cpuOffload" in str(changes))
    assert ("1 of 8 layers is copied" in said) is ("weightStreaming" in str(changes))
    out = io.StringIO()
    print_details(Console(file=out, width=300), status)
    assert said in " ".join(out.getvalue().split())
    body = chat() | {"status": json.loads(status.model_dump_json(by_alias=True, exclude_none=True))}
    seen = await deployment_page(body)
    assert said in seen.text
    assert words not in (await deployment_page(chat())).text


@pytest.mark.parametrize("name", ["adapters", "eager", "images for whole towers", "a head", "streamed layers"])
def test_the_terms_keep_their_sum_where_a_model_has_more_of_them(name: str) -> None:
    base, changes = VARIANTS[name]
    planned = plan_one(example(base, changes), fleet_of(H100_NODE))
    status = planned.outcome().status.estimate
    assert status is not None
    assert figures_of_status(status) == figures_of_estimate(choice_of(planned).estimate)


async def test_the_what_if_page_has_the_figures_of_the_plans_document() -> None:
    status = chat()["status"]
    names = CandidateFiguresStatus.model_json_schema(by_alias=True)["properties"].keys()
    figures = {name: figure for name, figure in status["estimate"].items() if name in names}
    figures |= {"computedBytes": 31 * GIB, "budgetBytes": 29 * GIB, "fit": "No"}
    too_small = {"gpuType": "v100-sxm2-32gb", "tensorParallel": 1, "reason": "KvCacheTooSmall", "message": "no"}
    status["rejections"].append({**too_small, "figures": figures})
    place = {"gpuType": "l4-24gb", "tensorParallel": 1, "pipelineParallel": 1, "replicas": 1, "hourlyPrice": "0.42"}
    dear = {"gpuType": "h100-sxm-80gb", "tensorParallel": 2, "pipelineParallel": 2, "replicas": 3}
    change = {
        "namespace": "ml",
        "name": "chat",
        "change": "moved",
        "reason": "Cheaper",
        "message": "It moves.",
        "before": [{**dear, "hourlyPrice": "1234.50"}],
        "after": [place],
        "inFiles": True,
        "withoutFilesToo": False,
        "restarts": True,
        **{key: status[key] for key in ("placement", "estimate", "rejections", "model")},
    }
    pushed = {
        **change,
        "name": "old",
        "inFiles": False,
        "change": "waiting",
        "reason": "WaitingForGpus",
        "after": [],
        "before": [dear],
    }
    anyway = {**pushed, "name": "anyway", "withoutFilesToo": True}
    document = {
        "changes": [change, pushed, anyway],
        "bill": {"before": "1234.50", "after": "0.42", "unpricedPlaces": 2},
        "unchanged": {"count": 1200, "unplaced": 0},
        "notes": ["A note."],
        "problems": ["A problem."],
    }
    answer = answer_of(document)
    assert answer.summary == "1 moves, 1,200 unchanged, 2 wait, -$1,234.08/h, 1 displaced"
    assert answer.bill == "$1,234.50/h now, $0.42/h after, without 2 places of unknown price"
    assert [each.bill for each in answer.changes] == ["$1,234.50 \u2192 $0.42", "unknown", "unknown"]
    assert answer.changes[0].before == "3 on h100-sxm-80gb \u00d7 2 \u00d7 2 stages"
    assert [each.word for each in answer.changes] == [
        "moves to 1 on l4-24gb \u00d7 1",
        "waits for GPUs",
        "waits for GPUs",
    ]
    assert (answer.changes[0].after, answer.changes[1].after) == ("1 on l4-24gb \u00d7 1", "nothing")
    visit = visit_of(
        view_of("/what-if"),
        ClusterView(),
        query={"change": ("-l40s",)},
        commands=Saying(Ran(0, json.dumps(document), "")),
    )
    seen = await opened(view_of("/what-if"), visit)
    assert isinstance(seen, Seen)
    for words in (
        answer.summary,
        answer.bill,
        "A note.",
        "A problem.",
        "plimsoll plan --what-if=-l40s",
        f"{gib(figures['computedBytes'])} / {gib(figures['budgetBytes'])}",
        f"{gib(status['estimate']['computedBytes'])} / {gib(status['estimate']['budgetBytes'])}",
    ):
        assert words in seen.text, words


@every_case("verdict", ReviewVerdict)
def test_every_verdict_of_a_plan_has_a_symbol_and_a_word(verdict: ReviewVerdict) -> None:
    change: dict[str, Any] = {
        "namespace": "ml", "name": "a", "change": verdict.value, "reason": "r", "message": "m", "before": [],
        "after": [], "inFiles": False, "withoutFilesToo": False, "restarts": False,
    }  # fmt: skip
    bill = {"before": "1", "after": "1", "unpricedPlaces": 0}
    document = {"changes": [change], "bill": bill, "unchanged": {"count": 0}, "notes": [], "problems": []}
    answer = answer_of(document)
    (one,) = answer.changes
    assert one.symbol
    assert answer.summary.startswith(f"1 {one.word}, same price")
    assert one.candidates is None


def test_an_empty_plan_is_said_as_such() -> None:
    bill = {"before": "0", "after": "0", "unpricedPlaces": 0}
    answer = answer_of({"changes": [], "bill": bill, "unchanged": {"count": 0}, "notes": [], "problems": []})
    assert answer.summary == "same price, 0 displaced"


async def test_an_override_is_named_by_the_figure_that_the_engine_needs() -> None:
    """The page shows the computed need also where an admin's figure replaces it for placement."""
    body = chat()
    body["status"]["estimate"]["overrideBytes"] = 10 * GIB
    row = row_of(body)
    assert row.figures is not None
    assert (row.figures.needed, row.figures.upper) == (10 * GIB, body["status"]["estimate"]["computedBytes"])
    assert f"to {gib(row.figures.upper)} GiB" in (await deployment_page(body)).text


async def test_the_engine_has_its_name_for_people_and_an_unknown_one_its_own() -> None:
    body = chat()
    assert "vLLM 0.32.0," in (await deployment_page(body)).text
    body["spec"]["engine"] = {"name": "another"}
    assert "another 0.32.0," in (await deployment_page(body)).text
    body["spec"]["engine"] = None
    assert "vLLM 0.32.0," in (await deployment_page(body)).text
