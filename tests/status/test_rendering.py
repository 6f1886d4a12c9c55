"""The status document: what the CRD takes, without a float, stable from pass to pass."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.api.v1alpha1 import InferenceDeploymentStatus
from plimsoll.api.v1alpha1.status import CandidateFiguresStatus
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.public_words import ConditionReason, Reason
from plimsoll.domain.requests.serving import Overrides
from plimsoll.domain.requests.weights import Weights, WeightsProgress, WeightsState, WeightsView
from plimsoll.domain.units import GIB, MIB
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.rebalance.state.history import ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import Learned
from plimsoll.status.record.reading import read
from plimsoll.status.record.report import DeploymentProblem, PoolView, RebalancingReport, Report
from plimsoll.status.words.weights import weights_fields, weights_sentence
from plimsoll.status.writing import document_of, new_status
from tests.render.workloads import decision
from tests.support.planning import H100, L4, L40S, LLAMA_70B, LLAMA_70B_FP8, fleet, gpu, model, node, request
from tests.support.status_schema import most_items
from tests.support.tables import every_case

MAX_REJECTIONS = 40

NOW = "2026-01-01T00:10:00Z"
POOL = "h100-sxm-80gb-tp1"
LIVE = RebalancingReport(
    decision="AddReplica",
    reason="SustainedKvPressure",
    message="KV cache over 85 % for 120 s",
    proposal="3 replicas",
    base_replicas=1,
    target_replicas=3,
    changes=(ChangeRecord(1_767_226_200.0, ChangeKind.ADD, "SustainedKvPressure", 3),),
    last_change="1 to 2 replicas",
    learned=Learned(POOL, 1.25, 90.4),
    diagnosis="KvBound",
    hints=("the gateway's queue is unknown",),
)


def report(decided: Any = None, **more: Any) -> Report:
    return Report("llama", 3, 1, namespace="ml", decision=decided, model=model(), engine_version="0.32.0", **more)


SERVING = report(decision(), pools=(PoolView(POOL, pods=1, ready=1, kv_tokens_reported=400_000),), rebalancing=LIVE)
NOWHERE = report(decision(request(LLAMA_70B_FP8), fleet(node("l4", L4, 1))))
UNPRICED = report(decision(where=fleet(node("h", gpu(H100, price=None)))))
FORCED = report(decision(request(LLAMA_70B, overrides=Overrides(H100, 1, 70 * GIB))))
BROKEN = report(problem=DeploymentProblem(ConditionReason.INVALID_SPEC, "spec.precision", permanent=True))
SPREAD = report(decision(request(replicas=3), fleet(node("l", L40S, 2), node("h", H100, 1))))
REPORTS = {
    "serving": SERVING,
    "nowhere": NOWHERE,
    "unpriced": UNPRICED,
    "forced": FORCED,
    "broken": BROKEN,
    "spread": SPREAD,
    "suspended": report(suspended=True),
}


def written(about: Report, previous: dict[str, Any] | None = None) -> dict[str, Any]:
    return document_of(new_status(about, read(previous), NOW))


def values(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        for child in node.values():
            yield from values(child)
    elif isinstance(node, list):
        for child in node:
            yield from values(child)
    else:
        yield node


@every_case("about", REPORTS.values(), ids=REPORTS)
def test_the_document_is_one_that_the_crd_takes(about: Report) -> None:
    document = written(about)
    parsed = InferenceDeploymentStatus.model_validate(document)
    assert parsed.model_dump(by_alias=True, exclude_none=True, mode="json") == document


@every_case("about", REPORTS.values(), ids=REPORTS)
def test_there_is_no_float_no_null_and_no_empty_list(about: Report) -> None:
    document = written(about)
    assert {type(value) for value in values(document)} <= {str, int, bool}
    assert "[]" not in str(document)


@every_case("about", REPORTS.values(), ids=REPORTS)
def test_writing_it_again_changes_nothing(about: Report) -> None:
    first = written(about)
    again = written(replace(about, decision=about.decision and replace(about.decision, placed_now=False)), first)
    assert again == first


def test_a_served_deployment_shows_what_it_has_and_what_it_costs() -> None:
    document = written(SERVING)
    assert (document["replicas"], document["readyReplicas"], document["replicasSummary"]) == (1, 1, "1/1")
    assert document["selector"] == "plimsoll.dev/deployment=llama"
    assert document["placement"]["hourlyPricePerReplica"] == document["placement"]["hourlyPrice"] == "3.08"
    assert document["placement"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert document["model"] == {
        "architecture": "LlamaForCausalLM",
        "source": "Catalog",
        "parameters": 8_030_261_248,
        "precision": "bf16",
        "kvPrecision": "bf16",
    }
    (pool,) = document["pools"]
    assert (pool["kvTokensReported"], pool["state"], pool["generation"]) == (400_000, "Active", 1)
    assert pool["kvTokensPredicted"] == document["estimate"]["kvCapacityTokens"]
    loop = document["rebalancing"]
    assert loop["changes"] == [{"at": NOW, "kind": "Add", "reason": "SustainedKvPressure", "replicas": 3}]
    assert loop["hints"] == ["the gateway's queue is unknown"]
    assert loop["learned"] == {"pool": POOL, "tokenTimePercent": 125, "startupSeconds": 90}


def test_the_url_is_there_from_the_plan_on_and_stays_while_a_source_is_down() -> None:
    planned = written(report(decision()))
    assert planned["url"] == "http://llama.ml.svc:8000/v1"
    down = report(problem=DeploymentProblem(ConditionReason.MODEL_SOURCE_UNAVAILABLE, "no answer", permanent=False))
    assert written(down, planned)["url"] == planned["url"]
    assert "url" not in written(NOWHERE)
    assert "url" not in written(NOWHERE, planned)


def test_a_service_that_may_be_somebody_elses_is_no_url() -> None:
    taken = report(decision(), name_conflict="Service ml/llama exists")
    assert "url" not in written(taken, written(report(decision())))


def test_the_terms_of_the_estimate_add_up() -> None:
    seen = written(SERVING)["estimate"]
    terms = ("weights", "kvCache", "activations", "cudaGraphs", "overhead", "margin")
    assert sum(seen[f"{term}Bytes"] for term in terms) == seen["computedBytes"]
    assert seen["gibPerGpu"] == f"{seen['computedBytes'] / GIB:.1f}"


def test_an_override_shows_both_figures_and_its_warnings() -> None:
    document = written(FORCED)
    assert document["estimate"]["overrideBytes"] == 70 * GIB
    assert document["estimate"]["computedBytes"] > 70 * GIB
    assert document["estimate"]["gibPerGpu"] == "70.0"
    assert len(document["placement"]["warnings"]) == 2


def test_the_price_of_all_is_known_only_when_every_part_is() -> None:
    assert written(SPREAD)["placement"]["hourlyPrice"] == "5.39"  # 2 x 1.154 + 3.078
    assert "hourlyPrice" not in written(UNPRICED)["placement"]


def test_a_refusal_has_no_placement_and_says_why_not_and_what_would_help() -> None:
    document = written(NOWHERE)
    assert not {"placement", "estimate", "pools"} & document.keys()
    first = document["rejections"][0]
    assert {name: first[name] for name in first if name not in ("message", "figures", "priceSource")} == {
        "gpuType": "l4-24gb",
        "hourlyPrice": "0.42",
        "tensorParallel": 1,
        "reason": "TooLittleVram",
    }


def test_the_figures_of_a_candidate_are_the_estimates_own_to_the_byte() -> None:
    decided = decision(where=fleet(node("h", H100), node("l", L40S), node("l4", L4, 1)))
    for rejection, entry in zip(decided.rejections, written(report(decided))["rejections"], strict=True):
        if rejection.figures is None:
            continue
        estimate, price = rejection.figures.estimate, rejection.figures.hourly_price
        assert entry["hourlyPrice"] == f"{price:.2f}"
        if "figures" not in entry:
            assert rejection.reason is Reason.COSTS_MORE  # at twice the price or more
            continue
        assert entry["figures"] == {
            "fit": estimate.fit.value,
            "weightsBytes": estimate.weights_bytes,
            "kvCacheBytes": estimate.kv_cache_bytes,
            "activationsBytes": estimate.activations_bytes,
            "slackBytes": estimate.slack_bytes,
            "expectedBytes": estimate.expected_bytes,
            "computedBytes": estimate.computed_bytes,
            "budgetBytes": estimate.budget_bytes,
            "usableBytes": estimate.usable_bytes,
            "kvNeededTokens": estimate.kv_needed_tokens,
            "kvCapacityTokens": estimate.kv_capacity_tokens,
        }
        rest = estimate.cuda_graphs_bytes + estimate.overhead_bytes + estimate.adapters_bytes + estimate.learned_bytes
        assert CandidateFiguresStatus.model_validate(entry["figures"]).overhead_bytes == rest


def test_an_admins_figure_and_a_missing_price_show_in_the_figures() -> None:
    free = gpu(L4, price=None)
    forced = request(overrides=Overrides(memory_per_gpu_bytes=70 * GIB))
    [refused, *_] = written(report(decision(forced, fleet(node("l", free, 1)))))["rejections"]
    assert (refused["figures"]["overrideBytes"], refused["figures"]["fit"]) == (70 * GIB, "No")
    assert not {"hourlyPrice", "priceSource"} & refused.keys()


def test_what_was_ruled_out_has_no_figures_and_the_source_of_prices_is_given_once_for_each_gpu_type() -> None:
    entries = written(report(decision(where=fleet(node("h", H100, 4), node("l", L40S, 1)))))["rejections"]
    judged = [each for each in entries if each["reason"] != "NodeTooSmall"]
    assert judged != entries
    assert not any({"figures", "hourlyPrice", "priceSource"} & each.keys() for each in entries if each not in judged)
    sourced = [each["gpuType"] for each in judged if "priceSource" in each]
    assert sorted(sourced) == sorted({each["gpuType"] for each in judged})
    assert all("hourlyPrice" in each for each in judged)


@every_case("price", ["1.21", "1.99", "2.00", "2.01", None])
def test_a_candidate_that_fits_at_twice_the_price_or_more_has_its_price_alone(price: str | None) -> None:
    where = fleet(node("h", gpu(H100, price=price), 1), node("l", gpu(L40S, price="1.00"), 1))
    other = next(each for each in written(report(decision(where=where)))["rejections"] if each["gpuType"] == H100)
    assert (other["tensorParallel"], other["reason"]) == (1, "CostsMore")
    assert other.get("hourlyPrice") == price
    assert ("figures" not in other) is (price in ("2.00", "2.01"))


def test_a_candidate_whose_bytes_no_reader_of_json_can_hold_is_shown_without_figures() -> None:
    decided = decision(request(LLAMA_70B), fleet(node("l", L4, 1)))
    first = decided.rejections[0]
    figures = first.figures
    assert figures is not None
    [weights, *others] = figures.estimate.terms

    def shown(size: int) -> dict[str, Any]:
        huge = replace(figures.estimate, terms=(weights._replace(size_bytes=size), *others))
        changed = replace(first, figures=replace(figures, estimate=huge))
        entry: dict[str, Any] = written(report(replace(decided, rejections=(changed,))))["rejections"][0]
        return entry

    assert shown(2**52)["figures"]["weightsBytes"] == 2**52
    assert "figures" not in shown(2**53)
    assert shown(2**53)["reason"] == "TooLittleVram"


def test_an_admins_figure_that_the_api_server_would_refuse_leaves_a_candidate_without_figures() -> None:
    def shown(size: int) -> dict[str, Any]:
        forced = request(overrides=Overrides(memory_per_gpu_bytes=size))
        entry: dict[str, Any] = written(report(decision(forced, fleet(node("l", L4, 1)))))["rejections"][0]
        return entry

    assert shown(2**53)["figures"]["overrideBytes"] == 2**53
    assert "figures" not in shown(10**30)
    assert shown(10**30)["reason"] == "TooLittleVram"


def test_rejections_are_bounded_and_the_rest_is_counted() -> None:
    everything = fleet(*(node(kind.name, kind) for kind in load_gpu_types()))
    about = report(decision(where=everything))
    document = written(about)
    assert len(document["rejections"]) == MAX_REJECTIONS == most_items("rejections")
    assert sum("figures" in each for each in document["rejections"]) < MAX_REJECTIONS // 4  # a status is written often
    assert len(json.dumps(document["rejections"])) < 24 * 1024, "a fortieth of what etcd takes"
    assert about.decision is not None
    assert document["rejectionsOmitted"] == len(about.decision.rejections) - MAX_REJECTIONS


def test_while_there_is_a_problem_the_last_decision_stays_readable() -> None:
    before = written(SERVING)
    after = written(BROKEN, before)
    kept = ("estimate", "placement", "model", "pools", "rejections")
    assert {field: after[field] for field in kept} == {field: before[field] for field in kept}
    assert after["conditions"] != before["conditions"]


def test_places_that_were_left_are_told_and_stay_told_while_there_is_a_problem() -> None:
    places = (
        Rehoming(L4, Split(1), "InsufficientGpus", at=1_767_225_600.0),
        Rehoming(L40S, Split(2, 2), at=1_767_225_660.0),
    )
    document = written(replace(SERVING, rehomings=places))
    assert document["rehomings"] == [
        {"gpuType": L4, "tensorParallel": 1, "at": "2026-01-01T00:00:00Z", "reason": "InsufficientGpus"},
        {"gpuType": L40S, "tensorParallel": 2, "pipelineParallel": 2, "at": "2026-01-01T00:01:00Z", "reason": ""},
    ]
    InferenceDeploymentStatus.model_validate(document)
    assert written(BROKEN, document)["rehomings"] == document["rehomings"]
    assert "rehomings" not in written(SERVING, document)


def test_host_memory_is_shown_term_by_term_with_what_is_requested() -> None:
    wanted = request(LLAMA_70B_FP8, overrides=Overrides(H100, 2), memory_bytes=10 * GIB)
    host = document_of(new_status(report(decision(wanted)), read({}), NOW))["placement"]["host"]
    assert {term["name"]: term["sizeBytes"] for term in host["terms"]} == {
        "processes": 3 * GIB,
        "ranks": 4 * GIB,
        "loading": 2 * GIB,
        "sharedMemory": 2 * GIB,
    }
    assert (host["memoryBytes"], host["requestedMemoryBytes"]) == (11 * GIB, 10 * GIB)
    assert (host["cpuMillis"], host["requestedCpuMillis"], host["sharedMemoryBytes"]) == (3000, 3000, 2 * GIB)


def test_the_estimate_has_the_codes_of_its_doubts_and_no_field_without_any() -> None:
    newer = request(engine=EngineChoice(EngineVersion(9, 9, 9)))
    doubted = written(report(decision(newer)))["estimate"]
    assert (doubted["fit"], doubted["doubts"]) == ("Probable", ["NewerRelease"])
    assert "doubts" not in written(SERVING)["estimate"]


COPY = Weights("hf://meta-llama/Llama-3.1-8B", claim="models")
AT = 1_767_226_200.0


def copied(state: WeightsState, progress: WeightsProgress | None = None, **more: Any) -> WeightsView:
    return WeightsView(COPY, state, progress, **more)


@pytest.mark.parametrize(
    ("progress", "said"),
    [
        (None, "The weights are being copied to the claim models."),
        (WeightsProgress(5 * GIB), "The weights are being copied to the claim models."),
        (WeightsProgress(5 * GIB, 15 * GIB), "5.0 of 15.0 GiB of the weights are on the claim models."),
        (
            WeightsProgress(5 * GIB, 15 * GIB, 200 * MIB),
            "5.0 of 15.0 GiB of the weights are on the claim models (200 MiB/s, 52 s left).",
        ),
        (
            WeightsProgress(0, 119 * MIB, MIB),
            "0.0 of 0.1 GiB of the weights are on the claim models (1 MiB/s, 119 s left).",
        ),
        (
            WeightsProgress(0, 120 * MIB, MIB),
            "0.0 of 0.1 GiB of the weights are on the claim models (1 MiB/s, 2 minutes left).",
        ),
    ],
)
def test_a_copy_that_arrives_says_how_much_is_there_and_how_long_the_rest_takes(
    progress: WeightsProgress | None, said: str
) -> None:
    arriving = copied(WeightsState.ARRIVING, progress)
    assert weights_sentence(arriving) == f"{said} Pods are made when all is there."
    again = weights_sentence(replace(arriving, message="connection reset."))
    assert again == f"{said} The last try failed: connection reset. Pods are made when all is there."


def test_a_copy_that_is_there_or_failed_says_so_without_figures() -> None:
    whole = WeightsProgress(15 * GIB, 15 * GIB, 200 * MIB)
    there = copied(WeightsState.READY, whole)
    assert weights_sentence(there) == "The weights are on the claim models."
    failed = copied(WeightsState.FAILED, whole, message="no room.")
    assert weights_sentence(failed) == "The weights were not copied to the claim models: no room."
    tried = replace(failed, again_at=AT)
    assert weights_sentence(tried).endswith(": no room. It is tried again at 2026-01-01T00:10:00Z, from there on.")
    for each in (there, tried):
        assert [weights_fields(each)[name] for name in ("copied_bytes", "total_bytes", "remaining_seconds")] == [
            None
        ] * 3


def test_the_fields_of_a_copy_are_the_figures_of_its_download() -> None:
    arriving = copied(
        WeightsState.ARRIVING, WeightsProgress(5 * GIB, 15 * GIB, 200 * MIB), message="x" * 1025, again_at=AT
    )
    assert weights_fields(arriving) == {
        "claim_name": "models",
        "source": COPY.source,
        "folder": COPY.folder,
        "state": "Arriving",
        "copied_bytes": 5 * GIB,
        "total_bytes": 15 * GIB,
        "bytes_per_second": 200 * MIB,
        "remaining_seconds": 52,
        "message": "x" * 1024,
        "retry_at": "2026-01-01T00:10:00Z",
    }
    assert weights_fields(copied(WeightsState.AWAITED))["message"] is None
