"""vLLM and SGLang side by side, on a real API server, scheduler and Prometheus: each is read in its own words.

A third deployment leaves the choice of its engine to the planner. All get the same load. The pods' pages of metrics are
those of their engines. The tests build on one another in the order of this file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from plimsoll.api.bounds import USUAL_RELEASES
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.engines.registry import ENGINES
from testbed.api_client import ApiError
from testbed.approvals import install_kinds
from testbed.engine_queue import Stream
from testbed.kwok_config import LOAD_TIME_ANNOTATION
from tests.support.approvals import Person, outcome_of, proposal_of
from tests.support.live_loop import CAPACITY, L4_POOL, L40S_POOL, TIMING, Bench, bench_of, engine_spec, stays

pytestmark = [pytest.mark.cluster, pytest.mark.story]

NAMES = {"first": "vllm", "second": "sglang", "open": "sglang"}
"""The engine that each deployment runs."""
SGLANG = {"name": "sglang"}
OPEN = {"name": "auto", "prefer": ["sglang", "vllm"]}
AUTO = {"mode": "Auto", "maxReplicas": 3, **TIMING}

EASY = Stream(rate=0.3, prompt=1500, output=100, first_token_seconds=0.35, token_seconds=0.085)
HARD = Stream(rate=2.0, prompt=1500, output=100, first_token_seconds=0.35, token_seconds=0.085)
"""One L4 carries some 1.15 of these requests a second."""


OUTGROWN = engine_spec("outgrown", AUTO, {L40S_POOL: 30_000}, engine=OPEN, concurrency=22)
"""66,000 tokens are declared. SGLang fits the L40S alone, where its engine gets 30,000; vLLM fits the L4, too."""


LLAMA = {"model": {"name": "meta-llama/Llama-3.1-8B-Instruct"}, "contextLength": 4096, "concurrency": 1}
BESIDE = engine_spec("beside", AUTO, {L4_POOL: 8_000}, engine=OPEN, **LLAMA)
"""It has L4 alone. SGLang gets enough there for one request, and not for four. No other deployment learns from it."""
MORE_NODES = {"outgrown": {"L4": 1, "L40S": 1}, "beside": {"L4": 2}}
BESIDE_POOL = f"{L4_POOL}-vllm"


def spec_of(name: str) -> dict[str, Any]:
    return engine_spec(name, AUTO, engine=OPEN if name == "open" else {"name": NAMES[name]})


def status_of(bench: Bench, name: str) -> dict[str, Any]:
    return dict(bench.view.get(name)["status"])


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with bench_of("engines", {"PLIMSOLL_APPROVALS": "true"}) as running:
        install_kinds(running.view.control_plane)
        running.add_nodes_of({name: {"L4": 3} for name in NAMES} | MORE_NODES)
        for name in NAMES:
            running.view.apply(name, **spec_of(name))
        running.view.apply("outgrown", **OUTGROWN)
        running.view.apply("beside", **BESIDE)
        for name in NAMES:
            running.view.wait_ready(name)
            running.stream(name, EASY)
        yield running


@pytest.mark.parametrize("name", NAMES)
def test_each_runs_its_own_engine_and_reports_its_own_cache(bench: Bench, name: str) -> None:
    engine = ENGINES[NAMES[name]]
    [pod] = bench.view.pods(name)
    [container] = pod["spec"]["containers"]
    assert container["image"] == engine.image(Vendor.NVIDIA, USUAL_RELEASES[engine.name])
    bench.view.wait(lambda: bench.view.pools(name)[0].get("kvTokensReported") == CAPACITY, f"the cache of {name}")


@pytest.mark.parametrize("name", NAMES)
def test_the_requests_of_each_are_known_from_its_own_metrics(bench: Bench, name: str) -> None:
    def learned() -> object:
        return bench.rebalancing(name).get("learned", {}).get("outputTokens")

    bench.view.wait(lambda: learned() == EASY.output, f"the lengths of {name}")


def test_an_open_choice_says_why_it_took_its_engine_and_a_named_one_says_nothing(bench: Bench) -> None:
    engine = status_of(bench, "open")["engine"]
    assert (engine["name"], engine["version"], engine["reason"]) == ("sglang", "0.5.23", "Preferred")
    (other,) = engine["others"]
    assert (other["name"], other["version"], other["reason"]) == ("vllm", "0.32.0", "LessPreferred")
    assert [pool.get("engine") for name in NAMES for pool in bench.view.pools(name)] == [None, "sglang", "sglang"]
    assert not [name for name in ("first", "second") if "engine" in status_of(bench, name)]


def test_what_runs_stays_on_its_engine_when_the_list_changes(bench: Bench) -> None:
    names = [pod["metadata"]["name"] for pod in bench.view.pods("open")]
    other = OPEN | {"prefer": ["vllm", "sglang"]}
    bench.view.patch("open", {"engine": other})
    generation = bench.view.get("open")["metadata"]["generation"]
    bench.view.wait(lambda: status_of(bench, "open")["observedGeneration"] == generation, "a plan for the new list")
    stays(lambda: [pod["metadata"]["name"] for pod in bench.view.pods("open")] == names, 3.0, "open moved")
    assert status_of(bench, "open")["engine"]["name"] == "sglang"


def test_while_an_engine_takes_over_the_replica_of_the_one_before_is_read_on(bench: Bench) -> None:
    """The new replica loads for 20 s. Until it serves, all that is known of the load comes from the old one."""
    [before], neighbours = bench.view.pods("first"), [pod["metadata"]["name"] for pod in bench.view.pods("second")]
    loads_long = {"annotations": {LOAD_TIME_ANNOTATION: "20s"}}
    bench.view.patch("first", {"engine": SGLANG, "podTemplate": loads_long})
    bench.wait_reason("first", "MoveUnderWay")
    assert bench.view.pools("first")[0]["engine"] == "sglang"
    bench.view.wait(lambda: len(bench.view.pods("first")) == 2, "the new replica")
    bench.view.wait(lambda: live(bench, "kv_cache_tokens", "first") == CAPACITY, "the cache of the old replica")
    assert before["metadata"]["name"] in [pod["metadata"]["name"] for pod in bench.view.pods("first")]
    assert not bench.view.pools("first")[0].get("kvTokensReported"), "the new engine has reported nothing"
    bench.wait_settled("first", {L4_POOL: 1})
    [after] = bench.view.pods("first")
    assert after["spec"]["containers"][0]["image"] == ENGINES["sglang"].image(Vendor.NVIDIA, "0.5.23")
    bench.view.wait(
        lambda: bench.view.pools("first")[0].get("kvTokensReported") == CAPACITY, "the cache of the new one"
    )
    bench.view.wait(lambda: bench.rebalancing("first")["learned"].get("engine") == "sglang", "what is learned of it")
    bench.view.patch(
        "first", {"engine": {"name": "vllm"}, "podTemplate": {"annotations": {LOAD_TIME_ANNOTATION: None}}}
    )
    bench.view.wait(lambda: bench.view.pools("first")[0].get("engine") is None, "a plan for the engine before")
    bench.wait_settled("first", {L4_POOL: 1})
    assert [pod["metadata"]["name"] for pod in bench.view.pods("second")] == neighbours


def live(bench: Bench, figure: str, name: str) -> float | None:
    """A live figure of a deployment, as the operator's metrics show it; None: they do not."""
    found = re.search(
        rf'^plimsoll_live_{figure}{{[^}}]*name="{name}"[^}}]*}} (\S+)$', bench.operator.metrics(), re.MULTILINE
    )
    return None if found is None else float(found[1])


@pytest.mark.parametrize(
    ("name", "change", "old_pool", "new_pool", "bill"),
    [
        ("outgrown", {}, L40S_POOL, L4_POOL, "-$"),
        ("beside", {"concurrency": 4}, L4_POOL, BESIDE_POOL, "same price"),
    ],
)
def test_another_engine_is_only_proposed_and_after_an_approval_it_serves_before_the_old_one_ends(
    bench: Bench, name: str, change: dict[str, Any], old_pool: str, new_pool: str, bill: str
) -> None:
    bench.view.wait_ready(name)
    bench.view.patch(name, change)
    known = proposal_of(bench.view, name)
    assert (known["change"], known["reason"]) == ("Move", "OtherEngineFits")
    assert known["summary"].startswith(f"move 1 replica to vLLM on l4-24gb x 1, {bill}")
    assert "SGLang has no place for all replicas, and vLLM has one: " in known["message"]
    stays(lambda: bench.settled(name) == {old_pool: 1}, 5.0, "moved although nobody approved it")
    neighbours = {other: bench.view.pod_uids(other) for other in NAMES}
    [before] = bench.view.pods(name)
    approver, since = Person(bench.view, f"approver-of-{name}"), bench.now()
    approver.grant(
        {"resources": ["placementapprovals"], "verbs": ["create"]},
        {"resources": ["inferencedeployments"], "verbs": ["get", "approve"]},
    )
    assert "created" in approver.creates(f"{name}-other-engine", deployment=name, proposal=known["id"])
    assert outcome_of(bench.view, f"{name}-other-engine")["state"] == "CarriedOut"
    bench.wait_settled(name, {new_pool: 1})
    [after] = bench.view.pods(name)
    [old], [new] = (pod["spec"]["containers"] for pod in (before, after))
    images = {each: engine.image(Vendor.NVIDIA, USUAL_RELEASES[each]) for each, engine in ENGINES.items()}
    assert (old["image"], new["image"]) == (images["sglang"], images["vllm"])
    labels = [pod["metadata"]["labels"].get("inference.networking.k8s.io/engine-type") for pod in (before, after)]
    assert labels == ["sglang", None]
    made = bench.rebalancing(name)["changes"][-1]
    assert (made["kind"], made["reason"], made["engine"]) == ("Move", "OtherEngineFits", "vllm")
    assert {other: bench.view.pod_uids(other) for other in NAMES} == neighbours
    ready = next(each for each in after["status"]["conditions"] if each["type"] == "Ready")["lastTransitionTime"]
    ended = [each for each in bench.writes(since, name) if each.verb == "delete" and "deployments" in each.resource]
    assert [each.name for each in ended] == [f"{name}-{old_pool}"]
    assert datetime.fromisoformat(ended[0].timestamp) >= datetime.fromisoformat(ready)


def test_each_grows_with_its_load_and_the_other_stays_as_it_is(bench: Bench) -> None:
    bench.stream("second", HARD)
    bench.view.wait(lambda: sum(bench.replicas("second").values()) > 1, "another replica of second", 120.0)
    assert bench.settled("first") == {L4_POOL: 1}
    [made] = [made for made in bench.rebalancing("second")["changes"] if made["kind"] == "Add"][:1]
    # Whoever looks late finds the requests waiting already.
    assert made["reason"] in {"ArrivalsExceedCapacity", "BacklogTooLong", "SustainedQueue"}
    bench.stream("first", HARD)
    bench.view.wait(lambda: sum(bench.replicas("first").values()) > 1, "another replica of first", 120.0)


def test_a_flag_of_the_other_engine_or_an_abbreviation_is_refused_and_nobody_else_notices(bench: Bench) -> None:
    before = bench.replicas("first")
    for flag in ("--mem-fraction-static=0.5", "--mem=0.5"):
        with pytest.raises(ApiError, match="extraArgs"):
            bench.view.apply("third", **engine_spec("third", AUTO, engine=SGLANG | {"extraArgs": [flag]}))
    for field in ({"version": "0.32.0"}, {"image": "registry.example/engine:1"}):
        with pytest.raises(ApiError, match="is about one engine"):
            bench.view.apply("third", **engine_spec("third", AUTO, engine=OPEN | field))
    with pytest.raises(ApiError, match="lora is not for SGLang"):
        bench.view.apply("third", **engine_spec("third", AUTO, engine=SGLANG | {"lora": {"maxRank": 16}}))
    stays(lambda: bench.replicas("first") == before, 3.0, "first changed")
