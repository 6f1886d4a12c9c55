"""Another engine plugs in by one row: it is placed, rendered, listened to and learned from, and vLLM goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planning.pictures import carry_out
from plimsoll.adapters.cluster.client import INFERENCE_DEPLOYMENTS
from plimsoll.adapters.prometheus.prometheus import PrometheusSignals
from plimsoll.api.conversion.convert import check_without_model
from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.decisions.observations import Observation, Seen, Witness
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import StepLimits
from plimsoll.domain.engines.failures import StartFailure
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import GIB
from plimsoll.engines.failures import read_failure
from plimsoll.engines.registry import ENGINES
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.rebalance.signals.metrics import EngineSample, SignalState
from plimsoll.status.record.reading import Record, read
from plimsoll.status.record.report import Report
from plimsoll.status.writing import document_of, new_status
from tests.adapters.fake_prometheus import matrix, send_json, serving
from tests.api.manifests import deployment
from tests.render.workloads import container
from tests.support.bodies import inference_deployment_body
from tests.support.desk import Desk
from tests.support.planning import H100, request
from tests.support.toy_engine import ABACUS, METRICS

NOW = 1_700_000_000.0
POD = {"namespace": "ns", "pod": "toy-0", "instance": "10.0.0.7:8000"}
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
SPEC: dict[str, Any] = {"model": {"name": LLAMA}, "contextLength": 4096, "concurrency": 6}
TOY: dict[str, Any] = {"name": "abacus", "version": "2.1"}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one row that a second engine needs outside its folder."""
    monkeypatch.setitem(ENGINES, ABACUS.name, ABACUS)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Two neighbours: one asks for each engine."""
    made = Desk(tmp_path)
    await made.settle("usual")
    toy = inference_deployment_body("toy", uid="uid-toy", spec=SPEC | {"engine": TOY})
    usual = inference_deployment_body("usual", uid="uid-usual", spec=SPEC)
    made.store.replace(INFERENCE_DEPLOYMENTS, [toy, usual])
    await made.planner.one_pass()
    await made.look_up()
    await made.planner.one_pass()
    yield made
    await made.book.close()


def engine_container(desk: Desk, owner: str) -> dict[str, Any]:
    """The engine's container of the last Deployment that was applied for an object."""
    made = [each for each in desk.recorder.applied if each["kind"] == "Deployment"]
    return container(next(each for each in reversed(made) if each["metadata"]["name"].startswith(f"{owner}-")))


async def test_each_object_gets_the_pods_of_its_own_engine(desk: Desk) -> None:
    usual, toy = engine_container(desk, "usual"), engine_container(desk, "toy")
    assert usual["image"] == VLLM.image(Vendor.NVIDIA, "0.32.0")
    assert usual["args"][:3] == [LLAMA, "--served-model-name", "usual"]
    assert "command" not in usual
    assert toy["image"] == "example.com/abacus-nvidia:2.1.0"
    assert toy["command"] == ["abacus", "serve"]
    assert toy["args"][:6] == ["--weights", LLAMA, "--longest", "4096", "--slots", "6"]
    assert toy["readinessProbe"]["httpGet"]["path"] == "/alive"
    assert {"name": "ABACUS_HOME", "value": "/cache/abacus"} in toy["env"]
    assert not [each["name"] for each in toy["env"] if "VLLM" in each["name"]]


async def test_the_memory_law_is_the_engines_own(desk: Desk) -> None:
    toy, usual = (desk.recorder.statuses[name]["estimate"] for name in ("toy", "usual"))
    assert toy["weightsBytes"] > 0
    assert toy["expectedBytes"] == toy["weightsBytes"] + toy["kvCacheBytes"]
    assert usual["expectedBytes"] > usual["weightsBytes"] + usual["kvCacheBytes"]


async def test_the_live_loop_reads_the_engines_own_metrics() -> None:
    points = {-20.0: "0.25", -5.0: "0.5"}

    def series(name: str, values: dict[float, str]) -> Any:
        own = {"__name__": name, "replica_rank": "0", "served": "toy"}
        return {"metric": own | POD, "values": [[NOW + at, value] for at, value in values.items()]}

    constant = {METRICS.waiting: "2", METRICS.running: "3", METRICS.preemptions: "4", METRICS.prompt_tokens: "50"}
    constant |= {METRICS.generation_tokens: "60", METRICS.capacity: "7000"}
    found = [series(METRICS.kv_usage, points)]
    found += [series(name, dict.fromkeys(points, value)) for name, value in constant.items()]
    with serving(NOW, lambda request, _: send_json(request, matrix(*found))) as fake:
        read = PrometheusSignals(fake.url).read("ns", ["toy-0"], window_seconds=60, now=NOW, metrics=METRICS)
        asked = fake.queries[0]["query"]
    assert read.state is SignalState.FRESH
    assert read.pods["toy-0"].samples == tuple(
        EngineSample(NOW + at, float(usage), 2.0, 3.0, 4.0, 7000, 50.0, 60.0) for at, usage in points.items()
    )
    assert all(name in asked for name in METRICS.names)
    assert "vllm" not in asked


async def test_the_loop_asks_for_the_names_of_each_objects_engine(desk: Desk) -> None:
    carry_out(desk.store, desk.passes.make(desk.store.picture(), {}, NOW).desired, version=5)
    desk.passes.make(desk.store.picture(), {}, NOW)
    wanted = {key.name: what.metrics for key, what in desk.passes.live.wanted.items()}
    assert wanted == {"usual": VLLM.metrics, "toy": METRICS}


def test_a_crash_is_read_in_the_words_of_the_engine_that_crashed() -> None:
    assert read_failure("startup\nabacus: the beads do not fit\n").reason is StartFailure.NO_KV_CACHE
    assert read_failure("No available memory for the cache blocks.").reason is StartFailure.NO_KV_CACHE
    assert read_failure("abacus: a bead fell").reason is StartFailure.UNKNOWN


@pytest.mark.parametrize(
    ("engine", "field", "fix"),
    [
        ({"extraArgs": ["--slots", "9"]}, "spec.engine.extraArgs[0]", "use spec.concurrency"),
        ({"version": "0.9"}, "spec.engine.version", "Use 1.0.0 or newer"),
        (
            {"textOnly": True},
            "spec.engine.textOnly",
            "It is not supported with Abacus: remove the field, or set spec.engine.name to vllm",
        ),
        ({"lora": {"maxRank": 16}}, "spec.engine.lora.maxRank", "Write one of 8."),
    ],
)
def test_the_users_options_are_checked_by_the_engine_that_is_asked_for(
    engine: dict[str, Any], field: str, fix: str
) -> None:
    with pytest.raises(InvalidInput, match=fix) as refused:
        check_without_model(deployment(engine=TOY | engine).spec)
    assert refused.value.field == field
    check_without_model(deployment(engine=TOY | {"extraArgs": ["--max-model-len", "5"]}).spec)


def test_an_engine_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidInput, match="write one of vllm, sglang, abacus") as refused:
        deployment(engine={"name": "slide-rule"})
    assert refused.value.field == "spec.engine.name"


def test_what_was_learned_of_an_engine_is_recorded_with_its_name() -> None:
    toy = replace(request(), engine=replace(request().engine, name="abacus"))
    kinds = [wanted.engine_kind(H100, Split(1)) for wanted in (toy, request())]
    seen = tuple(Seen(Observation(kind, Witness.METRICS, GIB, GIB, StepLimits(8192, 8)), "digest") for kind in kinds)
    status = document_of(new_status(Report("toy", 1, 1, observations=seen), Record(), "2026-01-01T00:00:00Z"))
    assert [entry.get("engine") for entry in status["observations"]] == ["abacus", None]
    assert read(status).observations == seen


def test_what_one_engine_teaches_says_nothing_of_the_other() -> None:
    usual = request()
    toy = replace(usual, engine=replace(usual.engine, name="abacus"))
    assert toy.engine_kind(H100, Split(1)) != usual.engine_kind(H100, Split(1))
