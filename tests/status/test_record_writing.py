"""The status that is sent: every field, what stays from the earlier one, and that no other field can be sent."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from plimsoll import __version__
from plimsoll.api.v1alpha1 import InferenceDeploymentStatus
from plimsoll.domain.decisions.observations import EngineKind, Observation, Seen, Witness
from plimsoll.domain.decisions.outcomes import Remedy, Split, Suggestion
from plimsoll.domain.decisions.proposals import Proposal, ProposalReason, Share
from plimsoll.domain.engines.engine_choice import EngineVersion, StepLimits
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import ConditionReason, RemedyKind, SuggestionKind
from plimsoll.domain.requests.serving import ObservedCapacity
from plimsoll.domain.units import GIB, to_rfc3339
from plimsoll.performance.model import cost
from plimsoll.placement.options.speed import load_of
from plimsoll.rebalance.state.history import ChangeKind, ChangeRecord
from plimsoll.rebalance.state.memory import Learned
from plimsoll.status import writing
from plimsoll.status.record.reading import Record, read, whole_status
from plimsoll.status.record.report import DeploymentProblem, PoolView, RebalancingReport, Report
from plimsoll.status.writing import decided_fields, document_of, new_status
from tests.render.workloads import decision
from tests.status.test_record_reading import GOOD
from tests.support.planning import L4, model, pool, request
from tests.support.status_schema import most_items

MAX_CHANGES = 250

EARLIER, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"
EARLIER_POSIX = 1_767_225_600.0
POOL = "h100-sxm-80gb-tp1"
SELECTOR = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
BROKEN = Report("llama", 4, 2, problem=DeploymentProblem(ConditionReason.INVALID_SPEC, "spec.model", permanent=True))


def written(about: Report, earlier: dict[str, Any] | None = None, now: str = NOW) -> dict[str, Any]:
    return document_of(new_status(about, read(earlier), now))


def serving(**more: Any) -> Report:
    view = PoolView(POOL, pods=1, ready=1, kv_tokens_reported=400_000, predicted_at_generation=1)
    return Report(
        "llama",
        1,
        1,
        decision(request()),
        namespace="ml",
        model=model(),
        engine_version="0.32.0",
        pools=(view,),
        **more,
    )


@pytest.mark.parametrize(
    ("saving", "seconds", "shown"),
    [
        (Decimal("1.5"), 0.04, {"hourlySaving": "1.50", "tpotMilliseconds": 40}),
        (None, 0.04, {"tpotMilliseconds": 40}),
        (Decimal("1.5"), None, {"hourlySaving": "1.50"}),
    ],
)
def test_a_suggestion_has_the_figures_that_are_known(
    saving: Decimal | None, seconds: float | None, shown: dict[str, Any]
) -> None:
    numbers = (("place", "l4-24gb x 1"), ("gpus", 1))
    about = serving()
    assert about.decision is not None
    cheaper = Suggestion(SuggestionKind.NARROW_KV_CACHE, numbers, saving, seconds)
    [found] = written(replace(about, decision=replace(about.decision, suggestions=(cheaper,))))["suggestions"]
    assert {name: found[name] for name in found if name not in ("kind", "message")} == shown
    assert found["kind"] == "NarrowKvCache"


@pytest.mark.parametrize(
    ("seen", "served"),
    [
        ({"ready": 1}, True),
        ({"ready": 0}, False),
        ({"ready": 1, "updating": True}, False),
        ({"ready": 0, "served": True}, True),
        ({"ready": 1, "predicted_at_generation": 2}, False),
    ],
)
def test_an_engine_has_served_once_one_with_the_pool_s_settings_was_ready(seen: dict[str, Any], served: bool) -> None:  # noqa: FBT001 - a row
    about = serving()
    view = replace(about.pools[0], **{"ready": 1} | seen)
    assert about.decision is not None
    (pool,) = about.decision.pools
    assert replace(about, pools=(view,)).has_served(pool) is served


def test_a_pool_is_written_field_by_field() -> None:
    about = serving()
    assert about.decision is not None
    assert about.decision.choice is not None
    choice = about.decision.choice
    assert written(about)["pools"] == [
        {
            "name": POOL,
            "gpuType": "h100-sxm-80gb",
            "tensorParallel": 1,
            "nodeSelector": SELECTOR,
            "resource": "nvidia.com/gpu",
            "state": "Active",
            "generation": 1,
            "replicas": 1,
            "batchedTokens": choice.settings.max_num_batched_tokens,
            "maxSequences": choice.settings.max_num_seqs,
            "drainSeconds": 90,
            "readyReplicas": 1,
            "served": True,
            "kvTokensPredicted": choice.estimate.kv_capacity_tokens,
            "kvTokensReported": 400_000,
        }
    ]


def test_an_estimate_and_a_placement_are_written_field_by_field() -> None:
    about = serving()
    assert about.decision is not None
    assert about.decision.choice is not None
    figures, settings = about.decision.choice.estimate, about.decision.choice.settings
    speed, price = about.decision.choice.performance, about.decision.choice.gpu.price
    assert speed is not None
    assert price is not None
    dollars = cost(price, about.decision.choice.split, load_of(about.decision.request), speed)
    document = written(about)
    assert document["estimate"] == {
        "gpuType": "h100-sxm-80gb",
        "tensorParallel": 1,
        "fit": "Sure",
        "weightsBytes": figures.weights_bytes,
        "kvCacheBytes": figures.kv_cache_bytes,
        "activationsBytes": figures.activations_bytes,
        "cudaGraphsBytes": figures.cuda_graphs_bytes,
        "overheadBytes": figures.overhead_bytes,
        "marginBytes": figures.margin_bytes,
        "slackBytes": figures.slack_bytes,
        "expectedBytes": figures.expected_bytes,
        "computedBytes": figures.computed_bytes,
        "budgetBytes": figures.budget_bytes,
        "usableBytes": figures.usable_bytes,
        "outsideBytes": figures.outside_bytes,
        "kvBytesPerToken": figures.kv_bytes_per_token,
        "kvNeededTokens": figures.kv_needed_tokens,
        "kvCapacityTokens": figures.kv_capacity_tokens,
        "kvCapacityLowTokens": figures.kv_capacity_low_tokens,
        "kvCapacityHighTokens": figures.kv_capacity_high_tokens,
        "gibPerGpu": f"{figures.needed_bytes / GIB:.1f}",
    }
    assert document["placement"] == {
        "gpuType": "h100-sxm-80gb",
        "nodeSelector": SELECTOR,
        "tensorParallel": 1,
        "pipelineParallel": 1,
        "gpusPerReplica": 1,
        "hourlyPricePerReplica": "3.08",
        "hourlyPrice": "3.08",
        "priceSource": about.decision.choice.gpu.price.source if about.decision.choice.gpu.price else None,
        "billing": "OnDemand",
        "maxNumSeqs": settings.max_num_seqs,
        "performance": {
            "tpotMilliseconds": round(speed.tpot_seconds * 1000),
            "tpotLowMilliseconds": round(speed.tpot_band[0] * 1000),
            "tpotHighMilliseconds": round(speed.tpot_band[1] * 1000),
            "ttftMilliseconds": round(speed.typical_ttft_seconds * 1000),
            "ttftLowMilliseconds": round(speed.typical_ttft_band[0] * 1000),
            "ttftHighMilliseconds": round(speed.typical_ttft_band[1] * 1000),
            "outputTokensPerSecond": round(speed.output_tokens_per_second),
            "usdPerMillionTokens": f"{dollars.usd_per_million_tokens:.2f}",
            "bound": speed.bound.value,
            "validated": speed.validated,
        },
        "host": {
            "cpuMillis": 2000,
            "memoryBytes": 8 * GIB,
            "sharedMemoryBytes": 2 * GIB,
            "requestedCpuMillis": 2000,
            "requestedMemoryBytes": 8 * GIB,
            "terms": [
                {"name": term.name, "sizeBytes": term.size_bytes, "detail": term.formula}
                for term in about.decision.choice.host.terms
            ],
        },
        "engine": {
            "maxModelLen": settings.max_model_len,
            "maxNumSeqs": settings.max_num_seqs,
            "maxNumBatchedTokens": settings.max_num_batched_tokens,
            "gpuMemoryUtilizationPercent": settings.gpu_memory_utilization_percent,
            "dtype": settings.dtype,
            "kvCacheDtype": settings.kv_cache_dtype,
            "enforceEager": settings.enforce_eager,
            "version": "0.32.0",
        },
    }


def test_what_engines_reported_is_written_field_by_field() -> None:
    kind = EngineKind("m", Precision.BF16, KvPrecision.FP8, L4, EngineVersion(0, 32, 1), Split(2, 3), "digest")
    full = Seen(Observation(kind, Witness.START_FAILURE, -7, 6, StepLimits(2048, 8)), "spec")
    bare = Seen(replace(full.observation, witness=Witness.OUT_OF_MEMORY, available_kv_bytes=None), "other")
    entry = {
        "model": "m",
        "precision": "bf16",
        "kvPrecision": "fp8",
        "gpuType": L4,
        "engineVersion": "0.32.1",
        "tensorParallel": 2,
        "pipelineParallel": 3,
        "options": "digest",
        "batchedTokens": 2048,
        "maxSequences": 8,
        "witness": "StartFailure",
        "predictedKvBytes": -7,
        "availableKvBytes": 6,
        "spec": "spec",
        "release": __version__,
    }
    shorter = {name: value for name, value in entry.items() if name != "availableKvBytes"}
    small = ObservedCapacity(L4, Split(1, 2), 1000)
    document = written(serving(observations=(full, bare), too_small=(small,), spec_digest="d"))
    assert document["observations"] == [entry, {**shorter, "witness": "OutOfMemory", "spec": "other"}]
    assert document["tooSmall"] == [
        {"gpuType": L4, "tensorParallel": 1, "pipelineParallel": 2, "kvTokens": 1000, "spec": "d"}
    ]
    assert read(document).observations == (full, bare)


def test_the_live_loop_is_written_field_by_field() -> None:
    marks = tuple(ChangeRecord(EARLIER_POSIX + 0.9 + 60 * number, ChangeKind.MOVE, "R", 2) for number in range(300))
    learned = Learned("p", 1.254, 89.6, output_tokens=211.4)
    loop = RebalancingReport("Keep", "R", "why", "do", 1, 2, marks, "the last", learned, "NothingToChange")
    changes = [
        {"at": to_rfc3339(mark.at), "kind": "Move", "reason": "R", "replicas": 2} for mark in marks[-MAX_CHANGES:]
    ]
    assert written(serving(rebalancing=loop))["rebalancing"] == {
        "decision": "Keep",
        "reason": "R",
        "message": "why",
        "diagnosis": "NothingToChange",
        "proposal": "do",
        "baseReplicas": 1,
        "targetReplicas": 2,
        "changes": changes,
        "lastChange": "the last",
        "learned": {"pool": "p", "tokenTimePercent": 125, "startupSeconds": 90, "outputTokens": 211},
    }
    bare = RebalancingReport(
        "Keep", "R", "why", changes=(ChangeRecord(EARLIER_POSIX, ChangeKind.ADD),), learned=Learned("p")
    )
    assert written(serving(rebalancing=bare))["rebalancing"] == {
        "decision": "Keep",
        "reason": "R",
        "message": "why",
        "changes": [{"at": EARLIER, "kind": "Add"}],
        "learned": {"pool": "p", "tokenTimePercent": 100},
    }


def test_while_there_is_a_problem_all_that_was_decided_stays() -> None:
    stays = GOOD.keys() - {"conditions", "observations", "observedGeneration", "replicas", "readyReplicas"}
    stays -= {"replicasSummary", "selector"}
    document = written(BROKEN, GOOD)
    assert {name: document[name] for name in stays} == {name: GOOD[name] for name in stays}
    assert {name: document[name] for name in document.keys() - stays - {"conditions"}} == {
        "observedGeneration": 4,
        "replicas": 0,
        "readyReplicas": 0,
        "replicasSummary": "0/2",
        "selector": "plimsoll.dev/deployment=llama",
    }


def test_a_field_that_the_report_takes_away_goes_and_the_others_stay() -> None:
    taken = replace(BROKEN, problem=None, name_conflict="Service ml/llama exists", rebalancing_off=True)
    document = written(taken, GOOD)
    assert {"url", "rebalancing", "observations"} & document.keys() == set()
    assert {name: document[name] for name in ("pools", "tooSmall", "rehomings", "model")} == {
        name: GOOD[name] for name in ("pools", "tooSmall", "rehomings", "model")
    }


def test_a_plan_in_which_nothing_is_placed_anew_keeps_the_rejections_of_the_last() -> None:
    names = ("rejections", "rejectionsOmitted", "remedies")
    about = serving()
    assert about.decision is not None
    anew = replace(about.decision, rejections=(), remedies=())
    assert anew.placed_now
    kept = written(replace(about, decision=replace(anew, placed_now=False)), GOOD)
    fresh = written(replace(about, decision=anew), GOOD)
    assert [kept[name] for name in names] == [GOOD[name] for name in names]
    assert [fresh.get(name) for name in names] == [None, None, None]
    assert {"rehomings", "pools"} & fresh.keys() == {"pools"}


def test_a_placement_stays_with_its_pools_and_goes_with_the_last() -> None:
    about = serving()
    assert about.decision is not None
    (pool,) = about.decision.pools
    kept = replace(about.decision, pools=(replace(pool, choice=None),))
    document = written(replace(about, decision=kept), GOOD)
    assert (document["estimate"], document["placement"]) == (GOOD["estimate"], GOOD["placement"])
    gone = written(replace(about, decision=replace(about.decision, pools=())), GOOD)
    assert {"estimate", "placement", "pools", "url"} & gone.keys() == set()


def test_no_more_remedies_are_written_than_the_status_holds() -> None:
    about = serving()
    assert about.decision is not None
    many = (Remedy(RemedyKind.KV_CACHE_FP8),) * 11
    document = written(replace(about, decision=replace(about.decision, remedies=many)))
    assert len(document["remedies"]) == most_items("remedies")


def test_no_more_proposals_are_written_than_the_status_holds() -> None:
    share, figures = Share(pool(L4).target, 1), (("replicas", 1), ("added", "1.5"), ("gpus", 1), ("charge", "0.2"))
    many = 5 * (Proposal((share,), (share,), ProposalReason.DEFRAGMENT_NODE, figures),)
    assert len(written(serving(proposals=many))["proposals"]) == most_items("proposals")


def test_no_more_changes_are_written_than_the_status_holds() -> None:
    marks = tuple(ChangeRecord(EARLIER_POSIX + 60 * number, ChangeKind.MOVE, "R", 2) for number in range(300))
    loop = RebalancingReport("Keep", "R", "why", "do", 1, 2, marks)
    assert len(written(serving(rebalancing=loop))["rebalancing"]["changes"]) == most_items("rebalancing", "changes")


def test_conditions_keep_their_time_while_their_status_stays() -> None:
    first = written(serving(), now=EARLIER)
    again = written(replace(serving(), suspended=True), first)
    times = {each["type"]: (each["status"], each["lastTransitionTime"]) for each in again["conditions"]}
    assert times == {
        "Ready": ("True", EARLIER),
        "Planned": ("Unknown", NOW),
        "Placed": ("True", EARLIER),
        "Available": ("True", EARLIER),
    }


@pytest.mark.parametrize(
    "rendered",
    [{"mood": "good"}, {"readyReplicas": 3}, {"pools": [{"zone": "a"}]}, {"url": 5}, {"replicas": "3"}],
    ids=str,
)
def test_what_the_api_does_not_have_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, rendered: dict[str, Any]
) -> None:
    monkeypatch.setattr(writing, "decided_fields", lambda *_: rendered)
    with pytest.raises(ValidationError):
        new_status(BROKEN, Record(), NOW)


def test_an_absent_field_and_an_empty_list_are_left_out_at_every_depth() -> None:
    assert document_of(InferenceDeploymentStatus(pools=[], replicas=0, url="")) == {"replicas": 0, "url": ""}
    empty = {**GOOD, "placement": {**GOOD["placement"], "warnings": []}}
    assert "warnings" not in document_of(whole_status(read(empty)))["placement"]
    assert document_of(whole_status(read(GOOD)))["placement"]["warnings"] == ["careful"]


def test_while_there_is_a_problem_the_weights_stay_as_they_were() -> None:
    assert written(serving()).get("weights") is None
    assert "weights" in decided_fields(serving(), {}, NOW)
    assert "weights" not in decided_fields(BROKEN, {}, NOW)
