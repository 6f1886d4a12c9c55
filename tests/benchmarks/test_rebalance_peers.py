"""The peers of the benchmark of rebalancing, on views that are made by hand. The expected numbers are, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from plimsoll.simulation.peers import keda
from plimsoll.simulation.peers.dynamo import EngineLoad
from plimsoll.simulation.peers.dynamo_easy import LATENCY, THROUGHPUT, Bounds, DynamoEasy
from plimsoll.simulation.peers.dynamo_model import MOST_PASSES, Pass, Passes, Plane
from plimsoll.simulation.peers.dynamo_sla import DynamoSla, least_replicas, requests_per_second, step_of
from plimsoll.simulation.peers.epp_keda import epp_keda
from plimsoll.simulation.peers.hpa import Behavior, Hpa, Rules
from plimsoll.simulation.peers.kpa import Apa, Kpa
from plimsoll.simulation.peers.signals import (
    Lengths,
)
from plimsoll.simulation.peers.view import PodView, View
from plimsoll.simulation.peers.wva import Analysis, Wva
from plimsoll.simulation.peers.wva_throughput import Pair, Throughput
from plimsoll.simulation.peers.wva_v1 import WvaV1
from plimsoll.simulation.peers.wva_v2 import Saturation
from plimsoll.simulation.values import Sample
from tests.benchmarks.rebalance_views import (
    AT_ONCE,
    ENGINE,
    NOW,
    SCENARIO,
    nan,
    near,
    over_time,
    pod,
    pods,
    stale,
    starting,
    view,
    wanted_by,
)
from tests.support.tables import every_case

pytestmark = pytest.mark.bench  # nothing of the operator is in it


def v1(*pods: PodView, wanted: int | None = None) -> int:
    return WvaV1(Hpa(AT_ONCE))(view(*pods, wanted=wanted))


@every_case(
    ("load", "replicas"),
    [
        ({"kv": 0.30}, 1),  # alone, one would have 0.20 and 5 to spare
        ({"kv": 0.36}, 2),  # alone, 0.08
        ({"kv": 0.30, "waiting": 1.5}, 2),  # alone, 2
        ({"kv": 0.69}, 2),
        ({"kv": 0.75}, 3),  # 0.05 to spare
        ({"kv": 0.30, "waiting": 3}, 3),  # 2 to spare
        ({"kv": 0.85, "waiting": 9}, 3),  # nobody is left
    ],
)
def test_v1_keeps_something_to_spare(load: dict[str, float], replicas: int) -> None:
    assert v1(*pods(2, **load)) == replicas


def test_v1_looks_only_at_those_who_are_not_saturated() -> None:
    assert v1(pod("full", kv=0.9), *pods(2, kv=0.3)) == 2, "two have 0.5 to spare, and one alone 0.2"
    assert v1(pod("full", kv=0.9), pod("free", kv=0.3)) == 2, "the last one stays"


def test_v1_is_blocked_while_anything_is_open() -> None:
    assert v1(*pods(1, kv=0.9), starting()) == 2
    assert v1(*pods(1, kv=0.9), stale()) == 2
    assert v1(*pods(2, kv=0.9)) == 3
    slow = WvaV1(Hpa(Behavior(Rules(60), Rules(60))))
    answers = over_time(slow, 60, lambda now: view(*pods(2, now=now, kv=0.9), now=now))
    assert answers == [2, 2, 2, 2, 3]
    assert slow.published == 3, "the first number was not reached, so there was no second"


def saturation(analyzer: Saturation, *pods: PodView, wanted: int | None = None) -> int:
    return Wva([analyzer], Hpa(AT_ONCE))(view(*pods, wanted=wanted))


def test_v2_compares_demanded_tokens_with_capacities() -> None:
    full = pods(2, kv=0.9, waiting=10)  # 2 x (90,000 + 10 x 1,500) = 210,000 of 2 x 80,000

    assert saturation(Saturation(), *pods(2, kv=0.5)) == 2, "142,857 of 160,000 leave less than one"
    assert saturation(Saturation(), *pods(3, kv=0.15)) == 1, "64,286 of 240,000 leave two"
    assert saturation(Saturation(), *full) == 4, "87,059 tokens are missing"
    assert saturation(Saturation(), *full, starting(), wanted=3) == 4, "a replica that starts counts"


def test_v2_remembers_what_a_saturated_replica_carried() -> None:
    analyzer = Saturation()

    assert saturation(analyzer, *pods(2, kv=0.3, waiting=6)) == 4, "31,765 tokens are missing at 30,000 a replica"
    assert saturation(analyzer, *pods(2, kv=0.15)) == 2, "42,857 of 60,000"
    assert saturation(analyzer, *pods(2, kv=0.15, output=50)) == 1, "short outputs are another bucket"
    assert saturation(Saturation(), *pods(2, kv=0.15)) == 1, "42,857 of 160,000"


def test_v2_derives_a_capacity_from_the_lengths() -> None:
    engine = replace(ENGINE, max_num_seqs=16)  # 16 x (1,000 + 500 / 2) = 20,000
    found = Saturation()(replace(view(*pods(2, kv=0.1)), engine=engine))

    assert found == Analysis(0, near(40_000 - 20_000 / 0.7), 20_000)


def test_v2_holds_its_number_without_metrics() -> None:
    policy = Wva([Saturation()], Hpa(AT_ONCE))

    assert policy(view(*pods(2, kv=0.9), has_metrics=False)) == 2
    assert policy(view(*pods(2, kv=0.9, waiting=10))) == 4
    assert policy(view(*pods(2, kv=0.0), has_metrics=False)) == 4
    assert policy(view(stale(), stale("b"))) == 4


def test_v2_takes_the_known_pods_for_all() -> None:
    found = Saturation()(view(pod(kv=0.5), stale()))

    assert found == Analysis(0, near(160_000 - 50_000 / 0.7), 80_000)


def test_one_analyzer_adds_and_all_remove() -> None:
    more, fewer, least = Analysis(25, 0, 10), Analysis(0, 25, 10), Analysis(0, 12, 10)

    def wva(*found: Analysis | None) -> int:
        analyzers = [lambda _, each=each: each for each in found]
        return Wva(analyzers, Hpa(AT_ONCE))(view(*pods(4)))

    assert wva(more, fewer) == 7
    assert wva(fewer, least) == 3
    assert wva(fewer, None) == 2
    assert wva(None, None) == 4


def test_the_throughput_analyzer_before_its_line_is_fitted() -> None:
    """1,000 tokens a second with 20 requests are 20 ms at a use of 0.5: 28 ms a unit above the base of 6 ms."""
    found = Throughput()(view(*pods(2, kv=0.5, running=20)))

    per_replica = 0.85 * 100_000 / 1250 / (0.028 * 0.85 + 0.006)
    assert found is not None
    assert found.per_replica == near(per_replica)
    assert (found.required, found.spare) == (0, near(2 * per_replica - 2000 / 0.7))


def test_the_throughput_analyzer_with_a_fitted_line() -> None:
    """Its pairs and the pods lie on 40 ms a unit above 10 ms. 88 waiting requests ask for 1,000 tokens a second."""
    pairs = [Pair(NOW - 60, 0.2 + 0.05 * index, 0.018 + 0.002 * index) for index in range(12)]
    analyzer = Throughput(pairs, Lengths(1000, 500))

    found = analyzer(view(*pods(2, kv=0.5, running=30, waiting=44)))

    assert found is not None
    assert found.per_replica == near(0.85 * 100_000 / 1250 / 0.044)
    assert found.required == near(3000 / 0.85 - 2 * found.per_replica)
    assert len(analyzer.pairs) == 14


def test_the_throughput_analyzer_forgets_and_is_silent() -> None:
    pairs = [Pair(NOW - 60, 0.2 + 0.05 * index, 0.018 + 0.002 * index) for index in range(12)]
    analyzer = Throughput(pairs, Lengths(1000, 300))

    analyzer(view(*pods(2, kv=0.5, running=20)))
    assert [pair.use for pair in analyzer.pairs] == [0.5, 0.5], "outputs of 500 are another shape"
    assert Throughput()(view(*pods(2, per_second=0))) is None, "no lengths"
    assert Throughput()(view(*pods(2, running=1))) is None, "1 ms a token is below the base"
    assert Throughput()(view(*pods(2, kv=0.5, running=20), has_metrics=False)) is None


def scaled(read: Callable[[Sample], float], target: float, *looks: View) -> list[int]:
    policy = keda.keda(read, target)(SCENARIO)
    return [wanted_by(policy, look) for look in looks]


def test_keda_divides_a_sum() -> None:
    assert scaled(keda.kv_use, 0.8, view(*pods(2, kv=0.9))) == [3]
    assert scaled(keda.kv_use, 0.8, view(*pods(2, kv=0.85))) == [2], "within the tolerance"
    assert scaled(keda.kv_use, 0.8, view(*pods(3, kv=0.1))) == [1]
    assert scaled(keda.waiting, 5, view(pod(waiting=12), pod("b"))) == [3]
    assert scaled(keda.running, 24, view(*pods(2, running=60))) == [5]
    assert scaled(keda.running, 24, view(*pods(2, running=600))) == [7], "5 more at once"


def test_keda_leaves_out_whom_it_does_not_know() -> None:
    assert scaled(keda.running, 24, view(pod(running=40), stale())) == [2]
    assert scaled(keda.running, 24, view(pod(running=20), stale())) == [1], "the load of the other one is lost"


@pytest.mark.parametrize("spoiled", [view(*pods(1), has_metrics=False), view(nan()), view(stale()), view(starting())])
def test_keda_falls_back_after_three_failures(spoiled: View) -> None:
    good = view(*pods(1))

    assert scaled(keda.kv_use, 0.8, spoiled, spoiled, spoiled) == [1, 1, 2]
    assert scaled(keda.kv_use, 0.8, spoiled, spoiled, good, spoiled, spoiled) == [1, 1, 1, 1, 1]
    assert scaled(keda.kv_use, 0.8, *[replace(spoiled, wanted=4)] * 3) == [4, 4, 4], "more than the fallback stay"


def test_kedas_slow_variant_removes_after_300_seconds() -> None:
    slow, fast = keda.keda(keda.running, 24, keda.DEFAULT)(SCENARIO), keda.keda(keda.running, 24)(SCENARIO)

    def quiet(now: float) -> View:
        return view(*pods(3, now=now, running=1), now=now)

    assert over_time(slow, 300, quiet) == [3] * 20 + [1]
    assert over_time(fast, 15, quiet) == [1, 1]


def test_the_endpoint_pickers_averages() -> None:
    assert epp_keda(SCENARIO)(view(*pods(2, kv=0.9))) == 3
    assert epp_keda(SCENARIO)(view(*pods(2, kv=0.2, waiting=40))) == 3, "one at a time"
    assert epp_keda(SCENARIO)(view(*pods(2, kv=0.7))) == 2
    assert epp_keda(SCENARIO)(view(pod(kv=0.9), stale())) == 3, "the other is taken to be like it"
    assert epp_keda(SCENARIO)(view(*pods(2, kv=0.9), has_metrics=False)) == 2
    answers = over_time(epp_keda(SCENARIO), 300, lambda now: view(*pods(3, now=now, kv=0.1), now=now))
    assert answers == [3] * 20 + [2]


@every_case(
    ("bounds", "loads", "replicas"),
    [
        (THROUGHPUT, [{"kv": 0.7, "waiting": 35}, {"kv": 0.1}], 3),  # 0.7 + 35 x 1,000 / 100,000
        (THROUGHPUT, [{"kv": 0.7, "waiting": 25}, {"kv": 0.1}], 2),
        (THROUGHPUT, [{"kv": 0.5}, {"kv": 0.59}], 1),
        (THROUGHPUT, [{"kv": 0.5}, {"kv": 0.6}], 2),
        (THROUGHPUT, [{"kv": 0.1}], 1),
        (LATENCY, [{"kv": 0.41}, {"kv": 0.1}], 3),
        (LATENCY, [{"kv": 0.4}, {"kv": 0.05}], 2),
        (LATENCY, [{"kv": 0.05}, {"kv": 0.09}], 1),
    ],
)
def test_dynamos_easy_mode(bounds: Bounds, loads: Sequence[dict[str, float]], replicas: int) -> None:
    engines = [pod(f"p{index}", **load) for index, load in enumerate(loads)]
    assert DynamoEasy(bounds)(view(*engines)) == replicas


def test_dynamo_only_observes_what_it_does_not_know_whole() -> None:
    assert DynamoEasy(LATENCY)(view(pod(kv=0.9), starting())) == 2
    assert DynamoEasy(LATENCY)(view(pod(kv=0.9), stale())) == 2
    assert DynamoEasy(LATENCY)(view(*pods(2, kv=0.9), has_metrics=False)) == 2
    assert DynamoEasy(LATENCY)(view(*pods(2, kv=0.9))) == 3


def test_dynamo_waits_for_scrapes_after_a_change() -> None:
    policy = DynamoEasy(LATENCY)

    assert policy(view(*pods(4, now=NOW + 5, kv=0.05), now=NOW + 5)) == 3
    assert policy(view(*pods(3, now=NOW + 10, kv=0.05), now=NOW + 10)) == 3, "the scrapes are of NOW"
    assert policy(view(*pods(3, now=NOW + 15, kv=0.05), now=NOW + 15)) == 2


def plane_of(passes: Sequence[Pass]) -> Plane | None:
    return Passes(list(passes)).fitted()


def test_dynamos_model_is_a_plane() -> None:
    seen = [(0, 10_000), (500, 20_000), (1000, 15_000), (2000, 60_000), (300, 80_000)]
    passes = [Pass(prompt, kv, 10, 1e-5 * prompt + 1e-7 * kv + 0.01) for prompt, kv in seen]

    plane = plane_of(passes)
    assert plane is not None
    assert (plane.per_prompt, plane.per_cached, plane.base) == near((1e-5, 1e-7, 0.01))
    assert (plane.mean_prompt, plane.mean_context) == (760, 3700)
    assert plane_of(passes[:4]) is None, "too few"
    assert plane_of([replace(each, seconds=0.1 - each.seconds) for each in passes]) is None, "it falls"
    assert plane_of([passes[0]] * 9) is None, "it is not unique"


def test_dynamo_reads_mean_passes_between_scrapes_once() -> None:
    """10 requests get 1,000 tokens a second: 100 passes a second, with 20 prompt tokens each."""
    passes, engines = Passes(), pods(1, running=10, kv=0.3)

    passes.read(engines, view(*engines))
    first = len(passes.kept)
    passes.read(engines, view(*engines))
    assert first == len(passes.kept) == 11, "twelve scrapes in 180 s"
    assert (passes.kept[0].prompt, passes.kept[0].in_cache) == near((20, 30_000))
    assert passes.kept[0].seconds == near(0.01)
    idle = Passes()
    idle.read(pods(1, running=0), view(*pods(1, running=0)))
    assert idle.kept == []


def test_dynamo_retires_from_the_fullest_cell() -> None:
    alike = [Pass(float(index), 100.0, 1, 0.01) for index in range(MOST_PASSES - 1)]
    passes = Passes([Pass(9000.0, 90_000.0, 1, 0.5), *alike])
    engines = pods(1, running=10)

    passes.read([replace(engines[0], samples=engines[0].samples[-2:])], view(*engines))

    assert len(passes.kept) == MOST_PASSES
    assert passes.kept[0].prompt == 9000, "the only one of its kind stays"
    assert passes.kept[1].prompt == 1, "the oldest of the many went"


PLANE = Plane(1e-5, 1e-7, 0.01, 100, 1000)


@pytest.mark.parametrize(
    ("loads", "step"),
    [
        ([(50_000, 0), (50_000, 0)], 0),  # one alone would have no cache left
        ([(20_000, 0), (20_000, 0)], -1),
        ([(20_000, 0)], 0),
        ([(20_000, 300_000), (20_000, 300_000)], 1),  # 37 chunks of 94 ms
        ([(20_000, 300_000), (20_000, 0)], 0),  # one engine alone does not count
    ],
)
def test_dynamos_steps_by_latency(loads: Sequence[tuple[float, float]], step: int) -> None:
    engines = [EngineLoad(*load) for load in loads]
    assert step_of(PLANE, engines, 1000, view(*pods(len(loads)))) == step


def test_dynamo_adds_where_all_tokens_are_late_and_keeps_where_one_less_would_be_near() -> None:
    """A pass takes 61 ms at 50,000 tokens of 1 us each; twice the load takes 91 ms of 100."""
    plane = Plane(0, 1e-6, 0.01, 0, 1000)
    look = view(*pods(2))

    assert step_of(plane, [EngineLoad(95_000, 0)] * 2, 1000, look) == 1
    assert step_of(plane, [EngineLoad(95_000, 0), EngineLoad(10_000, 0)], 1000, look) == 0
    assert step_of(plane, [EngineLoad(40_000, 0)] * 2, 1000, look) == 0
    assert step_of(plane, [EngineLoad(30_000, 0)] * 2, 1000, look) == -1


def test_dynamos_first_token_takes_whole_chunks() -> None:
    assert PLANE.ttft(10_000, 0, 8192) == near(0.01 + 0.08192 + 0.01 + 0.01808)
    assert PLANE.ttft(8192, 0, 8192) == near(0.01 + 0.08192)
    assert PLANE.ttft(0, 0, 8192) == 0


def test_dynamos_lower_bound_follows_the_traffic() -> None:
    """80 requests of 1,250 tokens fill the cache; at 50 ms a pass they are 3.2 requests a second."""
    flat = Plane(0, 0, 0.05, 0, 0)
    look = view(*pods(2, per_second=4))

    assert requests_per_second(flat, Lengths(1000, 500), look) == near(3.2)
    assert least_replicas(flat, look.pods, look) == 3
    assert least_replicas(flat, pods(2, per_second=0), look) is None
    slow = Plane(0, 1e-6, 0, 0, 0)  # 80 requests take 100 ms, 40 take 50 ms: goals limit, not the cache
    assert requests_per_second(slow, Lengths(1000, 500), replace(look, tpot_seconds=0.05)) == near(1.6)


def test_dynamos_sla_mode_as_a_whole() -> None:
    policy, waiting = DynamoSla(), DynamoSla()

    assert policy(view(*pods(2))) == 2, "a steady load gives no plane"
    passes = [Pass(p, kv, 10, 1e-5 * p + 1e-7 * kv + 0.01) for p, kv in ((0, 1e4), (500, 2e4), (1000, 1.5e4), (9, 9e4))]
    policy.passes, waiting.passes = Passes([*passes, passes[-1]]), Passes([*passes, passes[-1]])
    assert policy(view(*pods(2, running=0, kv=0.1))) == 1
    assert waiting(view(*pods(2, running=0, kv=0.1), has_metrics=False)) == 2
    busy = DynamoSla(Passes([*passes, passes[-1]]), least=4, looked_at=NOW)
    assert busy(view(*pods(2, running=0, kv=0.1))) == 4, "the traffic's bound"


def test_kpa_follows_the_sum_within_a_factor_of_two() -> None:
    assert Kpa()(view(*pods(2, kv=0.6))) == 3
    assert Kpa()(view(*pods(4, kv=0.1))) == 2, "one would do, but a half is the least"
    assert Kpa()(view(*pods(1, kv=0.9), wanted=1)) == 2
    assert Kpa()(view(*pods(2, kv=0.9), has_metrics=False)) == 2


def test_kpa_removes_nothing_in_a_panic() -> None:
    """Two minutes of 0.05 and one of 0.5 a pod: 0.4 in all over three minutes, and 1.0 over the last."""

    def look(now: float) -> View:
        return view(*pods(2, now=now, kv=0.05 if now <= NOW + 110 else 0.5), now=now)

    policy, calm = Kpa(), Kpa()
    assert over_time(policy, 170, look, every=10)[-1] == 2
    assert over_time(calm, 170, lambda now: view(*pods(2, now=now, kv=0.2), now=now), every=10)[-1] == 1


def test_apa_follows_the_mean_outside_a_band() -> None:
    assert Apa()(view(*pods(2, kv=0.8))) == 4
    assert Apa()(view(*pods(2, kv=0.54))) == 2
    assert Apa()(view(*pods(2, kv=0.56))) == 3
    assert Apa()(view(*pods(2, kv=0.8), has_metrics=False)) == 2
    answers = over_time(Apa(), 300, lambda now: view(*pods(4, now=now, kv=0.2), now=now))
    assert answers == [4] * 20 + [2]


def test_aibrix_counts_replicas_that_start() -> None:
    two = pods(2, kv=0.8)

    assert Apa()(view(*two, starting(), starting("b"))) == 4, "2 x 1.6 is what the ready ones need"
    assert Apa()(view(*pods(2, kv=0.8), starting())) == 4
    assert Kpa()(view(*pods(2, kv=0.9), starting())) == 3, "3.6 of the ready ones, spread over all"
    assert Kpa()(view(*pods(2, kv=0.1), starting(), starting("b"))) == 3, "those that start stay"
