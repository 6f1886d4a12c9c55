"""The metrics about decisions that the operator shows to Prometheus."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from threading import Event, Thread
from typing import Any

import pytest
from prometheus_client import Gauge, generate_latest

from plimsoll.adapters.metrics import Metrics
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.decisions.outcomes import Rejection
from plimsoll.domain.decisions.terms import KV_CACHE, WEIGHTS, Term
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import ConditionReason, PriceDoubt, Reason
from plimsoll.facts.prices.remarks import PriceRemark
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.demands.pools import Decision, PlannedPool, PoolState
from plimsoll.placement.fleet_record import FleetRecord
from plimsoll.status.record.report import DeploymentProblem, PoolView, RebalancingReport, Report
from tests.render.workloads import decision
from tests.support.planning import H100, L4, LLAMA_70B_FP8, fleet, node, request

CHAT, MAIL, TOYS = ObjectKey("ns", "chat"), ObjectKey("ns", "mail"), ObjectKey("other", "toys")
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
    return page(metrics)


def test_metrics_show_the_fleet_by_type_and_state() -> None:
    metrics = Metrics()
    metrics.show_fleet(fleet(node("a", H100, 8, held=3), node("b", H100, 8), node("c", L4, 1)))
    metrics.show_fleet(fleet(node("a", H100, 8, held=3), node("b", H100, 8)))
    whole = {
        f'fleet_gpus{{gpu_type="{H100}",state="held"}}': 3.0,
        f'fleet_gpus{{gpu_type="{H100}",state="free"}}': 13.0,
    }
    assert page(metrics) == whole
    metrics.show_fleet(fleet(node("a", H100, 8, held=3), replace(node("b", H100, 8), unhealthy=2)))
    assert page(metrics) == {**whole, f'fleet_gpus{{gpu_type="{H100}",state="unhealthy"}}': 2.0}


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
    broken = DeploymentProblem(ConditionReason.INVALID_SPEC, "spec.model", permanent=True)
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


def by_hand(*pools: PlannedPool, missing: int = 0, rejections: tuple[Rejection, ...] = ()) -> Decision:
    """A decision with these pools, replicas without a place and rejections."""
    return replace(decision(), pools=pools, missing=missing, rejections=rejections)


def pool_by_hand(**changes: Any) -> PlannedPool:
    """An active pool that needs 70 bytes of weights and 25 of cache, with a margin of 5, and has 1,500 tokens."""
    pool = decision().pools[0]
    assert pool.choice is not None
    terms = (Term(WEIGHTS, 70), Term(KV_CACHE, 25))
    figures = replace(pool.choice.estimate, terms=terms, margin_bytes=5, kv_capacity_tokens=1500)
    return replace(pool, choice=replace(pool.choice, estimate=figures), **changes)


NOTHING = """\
# HELP plimsoll_estimated_gpu_memory_bytes Estimated memory of one GPU.
# TYPE plimsoll_estimated_gpu_memory_bytes gauge
# HELP plimsoll_planned_replicas Replicas planned.
# TYPE plimsoll_planned_replicas gauge
# HELP plimsoll_unplaced_replicas Replicas without a place.
# TYPE plimsoll_unplaced_replicas gauge
# HELP plimsoll_placement_rejections Candidates not taken.
# TYPE plimsoll_placement_rejections gauge
# HELP plimsoll_problems Objects that cannot be planned.
# TYPE plimsoll_problems gauge
# HELP plimsoll_waiting_proposals Changes of the live loop that wait for approval.
# TYPE plimsoll_waiting_proposals gauge
# HELP plimsoll_predicted_kv_cache_tokens KV tokens of one replica by the estimate.
# TYPE plimsoll_predicted_kv_cache_tokens gauge
# HELP plimsoll_reported_kv_cache_tokens KV tokens of one replica by its engine.
# TYPE plimsoll_reported_kv_cache_tokens gauge
# HELP plimsoll_estimate_error_ratio Predicted over reported KV tokens, less one: above 0 too much was promised.
# TYPE plimsoll_estimate_error_ratio gauge
"""

THREE = """\
# HELP plimsoll_estimated_gpu_memory_bytes Estimated memory of one GPU.
# TYPE plimsoll_estimated_gpu_memory_bytes gauge
plimsoll_estimated_gpu_memory_bytes{component="weights",name="chat",namespace="ns"} 70.0
plimsoll_estimated_gpu_memory_bytes{component="kv",name="chat",namespace="ns"} 25.0
plimsoll_estimated_gpu_memory_bytes{component="margin",name="chat",namespace="ns"} 5.0
# HELP plimsoll_planned_replicas Replicas planned.
# TYPE plimsoll_planned_replicas gauge
plimsoll_planned_replicas{gpu_type="h100-sxm-80gb",name="chat",namespace="ns"} 5.0
plimsoll_planned_replicas{gpu_type="l4-24gb",name="chat",namespace="ns"} 0.0
# HELP plimsoll_unplaced_replicas Replicas without a place.
# TYPE plimsoll_unplaced_replicas gauge
plimsoll_unplaced_replicas{name="chat",namespace="ns"} 1.0
plimsoll_unplaced_replicas{name="mail",namespace="ns"} 0.0
# HELP plimsoll_placement_rejections Candidates not taken.
# TYPE plimsoll_placement_rejections gauge
plimsoll_placement_rejections{name="chat",namespace="ns",reason="TooLittleVram"} 2.0
plimsoll_placement_rejections{name="chat",namespace="ns",reason="NodeTooSmall"} 1.0
# HELP plimsoll_problems Objects that cannot be planned.
# TYPE plimsoll_problems gauge
plimsoll_problems{name="toys",namespace="other",reason="InvalidSpec"} 1.0
# HELP plimsoll_waiting_proposals Changes of the live loop that wait for approval.
# TYPE plimsoll_waiting_proposals gauge
plimsoll_waiting_proposals{name="chat",namespace="ns"} 0.0
plimsoll_waiting_proposals{name="mail",namespace="ns"} 1.0
# HELP plimsoll_predicted_kv_cache_tokens KV tokens of one replica by the estimate.
# TYPE plimsoll_predicted_kv_cache_tokens gauge
plimsoll_predicted_kv_cache_tokens{name="chat",namespace="ns",pool="first"} 1500.0
plimsoll_predicted_kv_cache_tokens{name="chat",namespace="ns",pool="second"} 1500.0
plimsoll_predicted_kv_cache_tokens{name="chat",namespace="ns",pool="third"} 1500.0
# HELP plimsoll_reported_kv_cache_tokens KV tokens of one replica by its engine.
# TYPE plimsoll_reported_kv_cache_tokens gauge
plimsoll_reported_kv_cache_tokens{name="chat",namespace="ns",pool="first"} 1000.0
plimsoll_reported_kv_cache_tokens{name="chat",namespace="ns",pool="second"} 0.0
# HELP plimsoll_estimate_error_ratio Predicted over reported KV tokens, less one: above 0 too much was promised.
# TYPE plimsoll_estimate_error_ratio gauge
plimsoll_estimate_error_ratio{name="chat",namespace="ns",pool="first"} 0.5
"""


WAITING = RebalancingReport("AddReplica", "KvPressure", "", proposal="One replica more.")


def three_objects() -> dict[ObjectKey, Report]:
    """One with pools, rejections and an approved change, one whose change waits, one with a problem."""
    first = pool_by_hand(name="first", replicas=2)
    second = pool_by_hand(name="second", replicas=3, state=PoolState.RETIRING)
    third = pool_by_hand(name="third", replicas=0, target=replace(first.target, gpu_type=L4))
    reasons = (Reason.TOO_LITTLE_VRAM, Reason.NODE_TOO_SMALL, Reason.TOO_LITTLE_VRAM)
    rejections = tuple(Rejection(L4, first.split, reason) for reason in reasons)
    views = (PoolView("first", kv_tokens_reported=1000), PoolView("second", kv_tokens_reported=0))
    chat = by_hand(first, second, third, missing=1, rejections=rejections)
    return {
        CHAT: Report("chat", 1, 6, chat, pools=views, rebalancing=replace(WAITING, approved=True)),
        MAIL: Report("mail", 1, 0, by_hand(), rebalancing=WAITING),
        TOYS: Report(
            "toys", 1, 1, problem=DeploymentProblem(ConditionReason.INVALID_SPEC, "spec.model", permanent=True)
        ),
    }


def objects_page(metrics: Metrics) -> str:
    """The lines about objects, in the text that Prometheus reads."""
    names = {line.split()[2] for line in NOTHING.splitlines()}
    lines = generate_latest(metrics.registry).decode().splitlines(keepends=True)
    return "".join(line for line in lines if re.findall(r"plimsoll_\w+", line)[0] in names)


def test_the_text_about_objects_is_as_written_here_and_values_with_the_same_labels_are_added_up() -> None:
    metrics = Metrics()
    metrics.show_cases(three_objects())
    assert objects_page(metrics) == THREE


def test_before_the_first_pass_and_after_the_last_object_the_names_are_there_without_values() -> None:
    metrics = Metrics()
    assert objects_page(metrics) == NOTHING
    metrics.show_cases(three_objects())
    metrics.show_cases({})
    assert objects_page(metrics) == NOTHING


def test_an_object_that_is_gone_takes_all_its_lines_with_it_and_its_neighbours_keep_theirs() -> None:
    metrics, reports = Metrics(), three_objects()
    metrics.show_cases(reports)
    metrics.show_cases({key: report for key, report in reports.items() if key != CHAT})
    kept = [line for line in THREE.splitlines() if 'name="chat"' not in line]
    assert objects_page(metrics).splitlines() == kept


def test_a_second_metric_with_the_name_of_one_about_objects_is_refused_and_another_name_is_not() -> None:
    registry = Metrics().registry
    for name in {line.split()[2] for line in NOTHING.splitlines()}:
        with pytest.raises(ValueError, match=name):
            Gauge(name, "The same name again.", registry=registry)
    Gauge("plimsoll_problems_of_others", "Another name.", registry=registry).set(1)
    assert registry.get_sample_value("plimsoll_problems_of_others") == 1.0


class Interrupted(dict[ObjectKey, Report]):
    """Reports of one pass. The first time that they are read, something else happens before."""

    def __init__(self, reports: Mapping[ObjectKey, Report], meanwhile: Callable[[], None]) -> None:
        super().__init__(reports)
        self.meanwhile: Callable[[], None] | None = meanwhile

    def items(self) -> Any:
        """Let it happen, then return the items."""
        if self.meanwhile is not None:
            happens, self.meanwhile = self.meanwhile, None
            happens()
        return super().items()


def test_a_pass_does_not_wait_for_a_scrape_and_the_scrape_shows_only_the_pass_before() -> None:
    metrics, reports = Metrics(), three_objects()
    waited: list[bool] = []

    def next_pass() -> None:
        """Publish from another thread, as the planner does."""
        publishing = Thread(target=metrics.show_cases, args=({},))
        publishing.start()
        publishing.join(60)
        waited.append(publishing.is_alive())

    metrics.show_cases(Interrupted(reports, next_pass))
    assert objects_page(metrics) == THREE
    assert waited == [False]
    assert objects_page(metrics) == NOTHING


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
    found = Appraisal("programme", 4.0, 3.0, 2, seniority_price=7)
    metrics.show_record(FleetRecord(Decimal(1), Decimal(5), unplaced=3, moved=2, appraisal=found))
    first = {
        'fleet_bill_dollars_per_hour{plan="before"}': 1.0,
        'fleet_bill_dollars_per_hour{plan="after"}': 5.0,
        'fleet_replicas{state="unplaced"}': 3.0,
        'fleet_replicas{state="moved"}': 2.0,
        'decision_bill_dollars_per_hour{solver="programme"}': 4.0,
        'decision_bound_dollars_per_hour{solver="programme"}': 3.0,
        'decision_gap_ratio{solver="programme"}': 0.25,
        'decision_seniority_replicas{solver="programme"}': 7.0,
    }
    assert page(metrics) == first
    metrics.show_record(FleetRecord(Decimal(5), Decimal(5)))
    settled = {'fleet_bill_dollars_per_hour{plan="before"}': 5.0, 'fleet_replicas{state="unplaced"}': 0.0}
    assert page(metrics) == first | settled | {'fleet_replicas{state="moved"}': 0.0}
    metrics.show_record(FleetRecord(appraisal=Appraisal("search", 2.0, None, 1, seniority_price=None)))
    decisions = {name: value for name, value in page(metrics).items() if name.startswith("decision")}
    assert decisions == {'decision_bill_dollars_per_hour{solver="search"}': 2.0}


def test_the_time_of_plans_is_counted() -> None:
    metrics = Metrics()
    for seconds in (0.5, 2.0):
        metrics.show_solving(FleetRecord(seconds=seconds))
    assert metrics.registry.get_sample_value("plimsoll_solve_duration_seconds_sum") == 2.5
    assert metrics.registry.get_sample_value("plimsoll_solve_duration_seconds_count") == 2.0
