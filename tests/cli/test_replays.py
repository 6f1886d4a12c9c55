"""``plimsoll simulate`` of requests that were there: a trace of a file, and what a deployment served."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plimsoll.adapters.prometheus.past_load import PastLoad
from plimsoll.cli.cluster.past import PastOfDeployment, past_of, schedule_of, spec_policy
from plimsoll.cli.plans.replays import of_deployment, seconds_of
from plimsoll.domain.errors import InvalidInput
from plimsoll.rebalance.state.policy import Mode
from plimsoll.simulation.past import PastStep
from plimsoll.simulation.replay import PEERS
from tests.cli.conftest import Run
from tests.support.tables import every_case

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
QUESTION = ("simulate", MODEL, "--gpu", "L40S", "--concurrency", "8", "--context-length", "4096", "--max-replicas", "2")
LINES = ["seconds,prompt_tokens,output_tokens", *(f"{10 + 2 * index},900,{20 + index}" for index in range(60))]


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., str]:
    def written(*lines: str, name: str = "day.csv") -> str:
        path = tmp_path / name
        path.write_text("\n".join(lines or LINES) + "\n", encoding="utf-8")
        return str(path)

    return written


def test_a_trace_is_served_under_every_law(run: Run, trace: Callable[..., str]) -> None:
    status, shown, said = run(*QUESTION, "--trace", trace())
    assert status == 0
    assert "60 in 1.98 min; prompts of 900 tokens, answers of 50 (means)." in shown
    assert all(law in shown for law in ("plimsoll", "static 1", *PEERS))
    assert "Mode Auto: " in shown
    assert said.count("is done") >= 2 + len(PEERS)


def test_the_document_has_every_figure(run: Run, trace: Callable[..., str]) -> None:
    found = json.loads(run(*QUESTION, "--trace", trace(), "-o", "json")[1])
    assert (found["input"]["requests"], found["input"]["begin"], found["input"]["known_percent"]) == (60, None, 100.0)
    assert found["laws"][0]["law"] == "plimsoll"
    assert {*found["laws"][0]} >= {"goodput", "gpu_hours", "usd", "changes", "flips", "ttft_p95_seconds"}


@every_case(
    ("line", "said"),
    [
        ("30,abc,7", "Line 4: prompt_tokens: 'abc' is not a number."),
        ("30,0,7", "Line 4: prompt_tokens: '0' is not a whole number from 1."),
        ("30,900", "Line 4: output_tokens: None is not a number."),
        ("NaN,900,7", "Line 4: seconds: 'NaN' is not a finite number."),
    ],
)
def test_a_trace_with_one_broken_line_is_refused_with_the_line_the_value_and_a_fix(
    run: Run, trace: Callable[..., str], line: str, said: str
) -> None:
    status, shown, error = run(*QUESTION, "--trace", trace(*LINES[:3], line, *LINES[3:]))
    assert (status, shown) == (2, "")
    assert "--trace: '" in error
    assert f"{said} Correct the line, or remove it." in error


def test_requests_that_no_replica_holds_are_cut_and_a_note_says_how_many(run: Run, trace: Callable[..., str]) -> None:
    path = trace(*LINES, "300,5000,10", "301,4000,4000")
    found = json.loads(run(*QUESTION, "--trace", path, "-o", "json")[1])
    assert found["notes"] == ["2 of 62 requests are longer than the 4,096 tokens of a replica, and cut."]


@every_case(
    ("words", "said"),
    [
        (("--trace", "{trace}", "--prompt", "5"), "--prompt is of a workload: leave it out with --trace."),
        (("--from-prometheus", "7d"), "--from-prometheus reads the deployment of the cluster"),
    ],
)
def test_two_sources_of_requests_are_refused(
    run: Run, trace: Callable[..., str], words: tuple[str, ...], said: str
) -> None:
    status, _, error = run(*QUESTION, *(each.format(trace=trace()) for each in words))
    assert status == 2
    assert said in " ".join(error.split())


def test_without_a_deployment_a_gpu_type_must_be_named(run: Run) -> None:
    status, _, error = run("simulate", MODEL)
    assert status == 2
    assert "Missing option '--gpu'" in error


@every_case(("text", "seconds"), [("7d", 604_800.0), ("24h", 86_400.0), ("90m", 5400.0)])
def test_a_span_has_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@every_case("text", ["", "7", "d", "7w", "-1d", "0d", "1.5h", "7 d", "٣d x"])
def test_another_span_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="Write a span such as 7d, 24h or 90m"):
        seconds_of(text)


# -- a deployment of a cluster -----------------------------------------------------------------------------------------


def body_of(status: bool = True, **rebalancing: Any) -> dict[str, Any]:  # noqa: FBT001, FBT002 - a test
    spec = {"model": {"name": MODEL}, "contextLength": 4096, "concurrency": 8, "replicas": 2}
    split = {"tensorParallel": 1, "pipelineParallel": 1, "gpusPerReplica": 1}
    engine = {
        "maxModelLen": 4096,
        "maxNumSeqs": 8,
        "maxNumBatchedTokens": 2048,
        "gpuMemoryUtilizationPercent": 90,
        "dtype": "bfloat16",
        "kvCacheDtype": "auto",
        "enforceEager": False,
        "version": "0.32.0",
    }
    placement = {"gpuType": "l40s-48gb", "nodeSelector": {"a": "b"}, "engine": engine, **split}
    body: dict[str, Any] = {
        "apiVersion": "plimsoll.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": "chat", "namespace": "ns", "uid": "u"},
        "spec": spec | {"slo": {"ttftMilliseconds": 2000}, "rebalancing": {"maxReplicas": 4} | rebalancing},
    }
    return body | ({"status": {"placement": placement}} if status else {})


BEGIN = 1_764_547_200.0
"""1 December 2025, 00:00 UTC, a Monday."""


def past(startup: float | None = None, seen: float | None = None, known: int = 8) -> PastOfDeployment:
    steps = tuple(PastStep(300.0 * index, 300.0, 0.2, 800.0, 60.0) for index in range(known))
    return PastOfDeployment(PastLoad(BEGIN, 3000.0, steps, known / 10, seen), startup)


def test_a_deployment_is_replayed_as_it_is_placed_with_its_bounds_its_promise_and_its_start_up() -> None:
    question = of_deployment(body_of(), past(startup=90.0, seen=70.0), 60.0, 1)
    replay = question.replay
    assert (replay.replicas, replay.policy.max_replicas, replay.startup_seconds) == (2, 4, 90.0)
    assert (replay.ttft_seconds, replay.kind.place.gpu.name) == (2.0, "l40s-48gb")
    assert (question.known, question.source, question.notes) == (0.8, "ns/chat", ())
    assert 300 < len(replay.arrivals) < 600
    assert of_deployment(body_of(), past(seen=70.0), 60.0, 1).replay.startup_seconds == 70.0


def test_in_recommend_mode_too_the_question_is_what_auto_would_have_done() -> None:
    policy, replicas = spec_policy(body_of(mode="Recommend"))
    assert (policy.mode, policy.max_replicas, replicas) == (Mode.AUTO, 4, 2)


def test_what_is_assumed_is_said() -> None:
    asleep = body_of(mode="Auto", minReplicas=0, wake="Manual")
    notes = of_deployment(asleep, past(), 60.0, 1).notes
    assert notes == (
        "rebalancing.minReplicas 0 is replayed as 1: no gateway that holds requests is simulated.",
        "No start-up was ever seen: 300 s are assumed.",
    )


def test_the_schedule_of_the_spec_counts_at_its_hours_of_that_week() -> None:
    entry = {"cron": "0 8 * * mon", "duration": "2h", "timeZone": "Europe/Berlin", "minReplicas": 3}
    schedule = schedule_of(body_of(schedule=[entry]), BEGIN)
    assert schedule is not None
    [early], [open_now], [later] = schedule(0.0), schedule(7 * 3600.0), schedule(9 * 3600.0)
    assert (early.opening.is_open, early.opening.opens_at, early.replicas) == (False, 7 * 3600.0, 3)
    assert open_now.opening.is_open
    assert later.opening.opens_at == 7 * 86_400.0 + 7 * 3600.0
    assert schedule_of(body_of(), BEGIN) is None


def test_what_is_not_placed_or_had_no_request_is_refused() -> None:
    with pytest.raises(InvalidInput, match="It is not placed"):
        of_deployment(body_of(status=False), past(), 60.0, 1)
    with pytest.raises(InvalidInput, match="Nothing came in this time"):
        of_deployment(body_of(), past(known=0), 60.0, 1)


def test_without_an_address_of_prometheus_the_option_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLIMSOLL_PROMETHEUS_URL", raising=False)
    with pytest.raises(InvalidInput, match="Name the Prometheus that scrapes"):
        past_of(body_of(), None, 3600.0, lambda _: None)


BLOCKS = [
    json.dumps(
        {"timestamp": 2000 * at, "input_length": 2048, "output_length": 20, "hash_ids": [at % 3, 10 + at % 3, 20]}
    )
    for at in range(60)
]
"""Three documents in turn. Two replicas that take turns see all of them, and a third one none."""

ROUTERS = ("--router", "round-robin", "--router", "prefix", "--replicas", "2")


def test_routers_are_compared(run: Run, trace: Callable[..., str]) -> None:
    words = (*QUESTION, "--trace", trace(*BLOCKS, name="day.jsonl"), *ROUTERS, "--host-tokens", "9000000")
    status, shown, said = run(*words)
    assert status == 0
    assert "2 replicas, each keeps 9,000,000 tokens of prompts." in shown
    assert "Router prefix finds" in shown
    assert "hash_ids" not in said
    document = json.loads(run(*words, "-o", "json")[1])
    assert document["input"]["kept_tokens"] == 9_000_000
    even, near = document["routers"]
    assert (even["router"], near["router"]) == ("round-robin", "prefix")
    assert even["found"] == pytest.approx(100 * 54 * 1536 / (60 * 2048))
    assert near["found"] == pytest.approx(100 * 57 * 1536 / (60 * 2048))
    assert (even["replicas_enough"], near["replicas_enough"]) == (1, 1)
    assert near["ttft_p50_seconds"] <= even["ttft_p50_seconds"]


def test_without_blocks_it_is_said_that_no_router_can_know_more(run: Run, trace: Callable[..., str]) -> None:
    status, shown, said = run(*QUESTION, "--trace", trace(), *ROUTERS)
    assert status == 0
    assert "The trace names no blocks of prompts (hash_ids)" in said
    assert shown.count(" 0.0 %") >= 2


TWICE = [
    json.dumps(
        {
            "timestamp": 2000 * at,
            "input_length": 2048,
            "output_length": 20,
            "hash_ids": [3 * (at % 200) + i for i in range(3)],
        }
    )
    for at in range(400)
]
"""200 documents of 1,536 tokens, one after the other, and all of them once more: three eighths of the prompt tokens."""


def test_a_size_of_host_memory_is_advised_by_what_a_trace_shows(run: Run, trace: Callable[..., str]) -> None:
    words = (*QUESTION, "--trace", trace(*TWICE, name="day.jsonl"), "--router", "prefix", "--host-memory")
    status, shown, _ = run(*words, "auto")
    assert status == 0
    assert "38 % of the prompt tokens had come before within 30 min, and 0 % were found. 64 GiB of host" in shown
    assert "for each replica would find 38 % and save 38 % of prefill, but no replica." in " ".join(shown.split())
    document = json.loads(run(*words, "64Gi", "--host-memory", "1Gi", "-o", "json")[1])
    assert document["seen_percent"] == 37.5
    none, least, enough = document["host_memory"]
    assert (none["bytes"], least["bytes"], enough["bytes"]) == (0, 2**30, 64 * 2**30)
    assert (none["found"], least["found"], enough["found"]) == (0.0, 0.0, 37.5)
    assert none["tokens"] == least["tokens"] < enough["tokens"] == 64 * 2**30 // 131_072
    assert (none["replicas_enough"], enough["replicas_enough"]) == (1, 1)


@every_case(
    ("words", "said"),
    [
        (("--host-memory", "auto"), "--host-memory compares sizes with one --router"),
        (("--router", "prefix", "--host-memory", "auto", "--host-tokens", "5"), "and without --host-tokens"),
        (("--router", "prefix", "--host-memory", "much"), "Write a size of 1Gi or more"),
        (("--router", "prefix", "--host-memory", "1Mi"), "Write a size of 1Gi or more"),
        (("--router", "prefix", "--host-memory", "auto", "--engine", "0.11.0"), "keeps no KV cache of"),
    ],
)
def test_a_size_that_cannot_be_tried_is_refused(
    run: Run, trace: Callable[..., str], words: tuple[str, ...], said: str
) -> None:
    asked = (*QUESTION, "--trace", trace(*BLOCKS, name="day.jsonl"))
    status, _, error = run(*asked, *words)
    assert status == 2
    assert said in " ".join(error.split())
    status, _, error = run(*QUESTION, "--trace", trace(), "--router", "prefix", "--host-memory", "auto")
    assert status == 2
    assert "So nothing is known of what would be found" in " ".join(error.split())


@every_case("words", [("--router", "prefix"), ("--host-tokens", "5"), ("--host-memory", "auto")])
def test_a_router_needs_a_trace(run: Run, words: tuple[str, ...]) -> None:
    status, _, said = run(*QUESTION, *words)
    assert status == 2
    assert f"{words[0]} needs a trace whose prompts have blocks (hash_ids): name it with --trace." in said
