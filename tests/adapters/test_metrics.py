"""The metrics about decisions that the operator shows to Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from threading import Event, Thread

import pytest
from prometheus_client import generate_latest

from plimsoll.adapters.metrics import Metrics
from plimsoll.domain.gpus import CapacityType
from plimsoll.domain.keys import ObjectKey
from plimsoll.domain.public_words import ConditionReason
from plimsoll.domain.reasons import PriceDoubt
from plimsoll.facts.prices.remarks import PriceRemark
from plimsoll.placement.appraisal import Appraisal
from plimsoll.placement.fleet_record import FleetRecord
from plimsoll.render.report import PoolView, Problem, Report
from tests.render.workloads import decision
from tests.support.planning import H100, L4, LLAMA_70B_FP8, fleet, node, request

CHAT, MAIL = ObjectKey("ns", "chat"), ObjectKey("ns", "mail")
POOL = "h100-sxm-80gb-tp1"


def page(metrics: Metrics) -> dict[str, float]:
    """The gauges about objects and the fleet, by name and labels."""
    lines = (line.rpartition(" ") for line in generate_latest(metrics.registry).decode().splitlines())
    about = (
        "plimsoll_fleet",
        "plimsoll_p",
        "plimsoll_unplaced",
        "plimsoll_est",
        "plimsoll_reported",
        "plimsoll_decision",
    )
    found = {name.removeprefix("plimsoll_"): float(value) for name, _, value in lines if name.startswith(about)}
    return {name: value for name, value in found.items() if not name.startswith("pass_")}


def shown(reports: Mapping[ObjectKey, Report]) -> dict[str, float]:
    metrics = Metrics()
    metrics.show_cases(reports)
    metrics.show_learning(reports)
    return page(metrics)


def test_metrics_show_the_fleet_by_type_and_state() -> None:
    metrics = Metrics()
    metrics.show_fleet(fleet(node("a", H100, 8, held=3), node("b", H100, 8), node("c", L4, 1)))
    metrics.show_fleet(fleet(node("a", H100, 8, held=3), node("b", H100, 8)))
    assert page(metrics) == {
        f'fleet_gpus{{gpu_type="{H100}",state="held"}}': 3.0,
        f'fleet_gpus{{gpu_type="{H100}",state="free"}}': 13.0,
    }


def test_metrics_show_doubtful_prices_and_forget_those_that_are_mended() -> None:
    metrics = Metrics()
    old = PriceRemark(PriceDoubt.OLD_PRICE, L4, CapacityType.SPOT)
    thin = PriceRemark(PriceDoubt.THIN_PRICE, H100, CapacityType.ON_DEMAND)
    metrics.show_prices([old, thin])
    metrics.show_prices([thin])
    assert page(metrics) == {
        f'price_doubts{{capacity_type="on-demand",gpu_type="{H100}",reason="ThinPrice"}}': 1.0,
    }


def test_metrics_show_each_report_s_decision_and_problem_and_forget_those_that_are_gone() -> None:
    planned, nowhere = decision(request(replicas=2)), decision(request(LLAMA_70B_FP8), fleet(node("l", L4, 1)))
    assert planned.choice is not None
    broken = Problem(ConditionReason.INVALID_SPEC, "spec.model", permanent=True)
    reports = {CHAT: Report("chat", 1, 2, planned), MAIL: Report("mail", 1, 1, nowhere)}
    found = shown(reports)
    chat, mail = 'name="chat",namespace="ns"', 'name="mail",namespace="ns"'
    assert found[f'planned_replicas{{gpu_type="{H100}",{chat}}}'] == 2.0
    assert found[f"unplaced_replicas{{{chat}}}"] == 0.0
    assert found[f"unplaced_replicas{{{mail}}}"] == 1.0
    turned_down = {
        name: value for name, value in found.items() if name.startswith("placement_rejections") and mail in name
    }
    assert turned_down == {
        f'placement_rejections{{{mail},reason="TooLittleVram"}}': 1.0,
        f'placement_rejections{{{mail},reason="NodeTooSmall"}}': 3.0,
    }
    assert found[f'estimated_gpu_memory_bytes{{component="weights",{chat}}}'] == planned.choice.estimate.weights_bytes
    assert not any(mail in name for name in found if name.startswith("estimated"))
    metrics = Metrics()
    metrics.show_cases(reports)
    metrics.show_cases({MAIL: Report("mail", 1, 1, problem=broken)})
    assert page(metrics) == {f'problems{{{mail},reason="InvalidSpec"}}': 1.0}


def test_metrics_show_what_was_predicted_reported_and_how_far_off_it_was() -> None:
    planned = decision()
    assert planned.choice is not None
    predicted = planned.choice.estimate.kv_capacity_tokens
    view = PoolView(POOL, pods=1, ready=1, kv_tokens_reported=predicted // 2)
    found = shown({CHAT: Report("chat", 1, 1, planned, pools=(view,)), MAIL: Report("mail", 1, 1, planned)})
    chat, mail = (f'name="{name}",namespace="ns",pool="{POOL}"' for name in ("chat", "mail"))
    assert found[f"predicted_kv_cache_tokens{{{chat}}}"] == found[f"predicted_kv_cache_tokens{{{mail}}}"] == predicted
    assert found[f"reported_kv_cache_tokens{{{chat}}}"] == predicted // 2
    assert found[f"estimate_error_ratio{{{chat}}}"] == pytest.approx(1.0, abs=0.001)
    assert f"reported_kv_cache_tokens{{{mail}}}" not in found
    assert f"estimate_error_ratio{{{mail}}}" not in found


def test_a_scrape_never_sees_a_fleet_that_is_half_replaced() -> None:
    """The series are removed and written again in every pass."""
    metrics, where, stop = Metrics(), fleet(node("h", H100)), Event()
    metrics.show_fleet(where)

    def replace_again_and_again() -> None:
        while not stop.is_set():
            metrics.show_fleet(where)

    changing = Thread(target=replace_again_and_again)
    changing.start()
    try:
        seen = [
            metrics.registry.get_sample_value("plimsoll_fleet_gpus", {"gpu_type": H100, "state": "free"})
            for _ in range(300)
        ]
    finally:
        stop.set()
        changing.join()
    assert seen == [8.0] * 300


def test_the_record_of_a_plan_is_shown_and_its_quality_stays_until_replicas_are_placed_again() -> None:
    metrics = Metrics()
    found = Appraisal("programme", 4.0, 3.0, 2)
    metrics.show_record(FleetRecord(Decimal(1), Decimal(5), unplaced=3, moved=2, appraisal=found))
    first = {
        'fleet_bill_dollars_per_hour{plan="before"}': 1.0,
        'fleet_bill_dollars_per_hour{plan="after"}': 5.0,
        'fleet_replicas{state="unplaced"}': 3.0,
        'fleet_replicas{state="moved"}': 2.0,
        'decision_bill_dollars_per_hour{solver="programme"}': 4.0,
        'decision_bound_dollars_per_hour{solver="programme"}': 3.0,
        'decision_gap_ratio{solver="programme"}': 0.25,
    }
    assert page(metrics) == first
    metrics.show_record(FleetRecord(Decimal(5), Decimal(5)))
    settled = {'fleet_bill_dollars_per_hour{plan="before"}': 5.0, 'fleet_replicas{state="unplaced"}': 0.0}
    assert page(metrics) == first | settled | {'fleet_replicas{state="moved"}': 0.0}
    metrics.show_record(FleetRecord(appraisal=Appraisal("search", 2.0, None, 1)))
    decisions = {name: value for name, value in page(metrics).items() if name.startswith("decision")}
    assert decisions == {'decision_bill_dollars_per_hour{solver="search"}': 2.0}


def test_the_time_of_plans_is_counted() -> None:
    metrics = Metrics()
    for seconds in (0.5, 2.0):
        metrics.show_solving(FleetRecord(seconds=seconds))
    assert metrics.registry.get_sample_value("plimsoll_solve_duration_seconds_sum") == 2.5
    assert metrics.registry.get_sample_value("plimsoll_solve_duration_seconds_count") == 2.0
