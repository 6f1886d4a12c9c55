"""What engines teach: from their metrics and from their last words, kept in the status, used for every object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.decision.lessons import CommonLessons, contribution, lessons, merged, remembered, teaches_others
from plimsoll.decision.observing import capacities, failed_starts, observed_now
from plimsoll.decision.surroundings import Surroundings
from plimsoll.domain.decisions.observations import Correction, Seen, Witness
from plimsoll.domain.decisions.outcomes import Fit, Split
from plimsoll.domain.engines.engine_choice import EngineVersion, StepLimits
from plimsoll.domain.engines.failures import EngineFailure
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.failures import read_failure
from plimsoll.engines.vllm.memory.kv_cache.rank_cache import rank_layout
from plimsoll.facts.cluster.pod_reading import PodFacts
from plimsoll.placement.demands.pools import Pool
from plimsoll.placement.options.feasibility import sized
from plimsoll.status.record.reading import Record, read
from plimsoll.status.record.report import Report
from plimsoll.status.writing import document_of, new_status
from tests.support.model_configs import facts_of
from tests.support.planning import H100, L4, L40S, fleet, gpu, node, pool, request
from tests.support.status_schema import most_items

MOST_KEPT = 40

SPEC = "a-spec"
FLEET = fleet(node("h", H100, 8), node("l", L4, 4), node("b", "b300-sxm-288gb", 8))
WANTED = request()
TOO_SMALL = (
    "ValueError: To serve at least one request with the models's max seq len (4096), 0.50 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (0.25 GiB)."
)
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def around(*pods: PodFacts, where: str = "h100-sxm-80gb-tp1", **workloads: Any) -> Surroundings:
    return Surroundings({where: pods}, workloads)


def serving() -> PodFacts:
    return PodFacts("one", bound=True, ready=True, ended=False, terminating=False)


def crashed(message: str) -> PodFacts:
    failure: EngineFailure = read_failure(message)
    return PodFacts("one", bound=True, ready=False, ended=False, terminating=False, failure=failure, restarts=2)


def failing_pool(kind: str = H100) -> Pool:
    return pool(kind, ready=0, too_large=True)


def observe(
    wanted: Request = WANTED, *, where: Pool | None = None, seen: Surroundings | None = None, tokens: int | None = None
) -> tuple[Seen, ...]:
    standing = where or pool(H100)
    reported = {} if tokens is None else {standing.name: tokens}
    return observed_now(wanted, [standing], seen or around(serving()), reported, FLEET, generation=1, spec=SPEC)


def written(seen: tuple[Seen, ...]) -> dict[str, Any]:
    return document_of(new_status(Report("x", 1, 1, observations=seen), Record(), ""))


PLAIN_SPEC: dict[str, Any] = {"model": {"name": WANTED.model.name}}


def common(*seen: Iterable[Seen], near: bool = True, spec: dict[str, Any] = PLAIN_SPEC) -> tuple[Correction, ...]:
    """Return the corrections from other deployments, each with its observations: near, or each in another namespace."""
    where = WANTED.key.namespace
    keys = [ObjectKey(where if near else f"other-{index}", f"teacher-{index}") for index in range(len(seen))]
    contributions = [
        contribution(key, SPEC, each, teaches=teaches_others(spec)) for key, each in zip(keys, seen, strict=True)
    ]
    return tuple(CommonLessons(contributions).of(WANTED.key, WANTED.model.name))


def taught(wanted: Request, seen: Iterable[Seen]) -> Request:
    own = tuple(seen)
    return replace(wanted, corrections=lessons(own, ()), failed_starts=failed_starts(wanted, own))


def test_a_running_engine_tells_by_its_metrics_and_the_estimate_says_the_same_afterwards() -> None:
    foretold = sized(WANTED, gpu(H100), Split(1))[1].kv_capacity_tokens
    (seen,) = observe(tokens=foretold - 20_000)
    assert (seen.observation.witness, seen.spec) == (Witness.METRICS, SPEC)
    corrected = sized(taught(WANTED, [seen]), gpu(H100), Split(1))[1]
    assert corrected.kv_capacity_tokens == foretold - 20_000
    assert corrected.margin_bytes < sized(WANTED, gpu(H100), Split(1))[1].margin_bytes


def test_the_prediction_that_an_engine_is_compared_with_is_the_laws_whatever_was_learned() -> None:
    foretold = sized(WANTED, gpu(H100), Split(1))[1].kv_capacity_tokens
    (first,) = observe(tokens=foretold - 20_000)
    (again,) = observe(taught(WANTED, [first]), tokens=foretold - 20_000)
    assert again.observation == first.observation


@pytest.mark.parametrize("stem", ["google__gemma-3-27b-it", "Qwen__Qwen3-Next-80B-A3B-Instruct", "zai-org__GLM-5.2"])
def test_tokens_are_taken_back_to_bytes_for_every_kind_of_cache(stem: str) -> None:
    wanted, kind, split = request(facts_of(stem)), "b300-sxm-288gb", Split(8)
    foretold = sized(wanted, gpu(kind), split)[1].kv_capacity_tokens
    (seen,) = observe(wanted, where=pool(kind, 8), seen=around(serving(), where=f"{kind}-tp8"), tokens=foretold // 2)
    corrected = sized(taught(wanted, [seen]), gpu(kind), split)[1]
    assert corrected.kv_capacity_tokens == pytest.approx(foretold // 2, rel=0.01)


def test_an_older_engine_s_blocks_are_blocks() -> None:
    # Before 0.24 metrics give blocks x tokens per block, which for windows is not what a request of full length gets.
    wanted = request(facts_of("google__gemma-3-27b-it"))
    old = replace(wanted, engine=replace(wanted.engine, version=EngineVersion(0, 22)))
    settings, figures = sized(old, gpu(H100), Split(2))
    layout = rank_layout(old, gpu(H100), Split(2), settings, 0)
    tokens = layout.pool_blocks(figures.available_kv_bytes) * layout.block_tokens
    (seen,) = observe(old, where=pool(H100, 2), tokens=tokens)
    available = seen.observation.available_kv_bytes
    assert available is not None
    assert 0 <= seen.observation.predicted_kv_bytes - available < layout.block_bytes


def cut(split: Split) -> Pool:
    """A pool of H100s, cut so."""
    whole = pool(H100)
    return replace(whole, target=replace(whole.target, split=split))


def test_stages_are_compared_in_blocks_of_the_one_that_is_short() -> None:
    split = Split(1, 2)
    staged = replace(cut(split), name="h100-sxm-80gb-tp1-pp2")
    figures = sized(WANTED, gpu(H100), split)[1]
    (seen,) = observe(where=staged, seen=around(serving(), where=staged.name), tokens=figures.kv_capacity_tokens)
    assert seen.observation.predicted_kv_bytes == seen.observation.available_kv_bytes


def test_the_step_that_the_engines_run_with_is_the_one_that_is_compared() -> None:
    lean = replace(pool(H100), limits=StepLimits(2048))
    usual, small = (observe(where=each, tokens=400_000)[0].observation for each in (pool(H100), lean))
    assert small.predicted_kv_bytes > usual.predicted_kv_bytes
    assert small.available_kv_bytes == usual.available_kv_bytes


def test_a_failed_start_tells_with_its_figures() -> None:
    (seen,) = observe(where=failing_pool(), seen=around(crashed(TOO_SMALL)))
    assert seen.observation.witness is Witness.START_FAILURE
    assert seen.observation.available_kv_bytes == GIB // 4
    assert sized(taught(WANTED, [seen]), gpu(H100), Split(1))[1].fit is Fit.NO


def test_out_of_memory_tells_that_it_does_not_fit() -> None:
    (seen,) = observe(where=failing_pool(), seen=around(crashed(OUT_OF_MEMORY)))
    assert seen.observation.witness is Witness.OUT_OF_MEMORY
    assert seen.observation.available_kv_bytes is None
    assert taught(WANTED, [seen]).failed_starts == ((H100, Split(1)),)


def test_what_is_not_about_the_engine_s_own_memory_teaches_nothing() -> None:
    held = "ValueError: Free memory on device (10.0/79.2 GiB) on startup is less than desired GPU memory utilization"
    for message in (held, "ImportError: no module"):
        assert observe(where=pool(H100, ready=0), seen=around(crashed(message))) == ()


def test_a_crash_beside_an_engine_that_serves_teaches_nothing() -> None:
    assert observe(seen=around(serving(), crashed(OUT_OF_MEMORY))) == ()


def test_figures_from_before_are_not_taken_for_an_engine_that_does_not_serve() -> None:
    (seen,) = observe(where=failing_pool(), seen=around(crashed(OUT_OF_MEMORY)), tokens=400_000)
    assert seen.observation.witness is Witness.OUT_OF_MEMORY


def test_a_pool_of_an_older_spec_or_in_the_middle_of_an_update_shows_nothing() -> None:
    assert observe(where=replace(pool(H100), generation=0), tokens=400_000) == ()
    body = {"metadata": {"generation": 2}, "spec": {"replicas": 1}, "status": {"observedGeneration": 1}}
    updating = Surroundings({"h100-sxm-80gb-tp1": (serving(),)}, {"h100-sxm-80gb-tp1": body})
    assert observe(seen=updating, tokens=400_000) == ()


def test_an_engine_that_the_request_is_not_for_teaches_nothing_of_the_one_that_it_is_for() -> None:
    figures = sized(WANTED, gpu(H100), Split(1))[1]
    other, reported = pool(H100, engine="sglang"), {pool(H100).name: figures.kv_capacity_tokens - 20_000}
    assert observe(where=other, tokens=reported[other.name]) == ()
    assert capacities(WANTED, [other], reported, FLEET) == reported
    (seen,) = observe(tokens=reported[other.name])
    assert seen.observation.kind.engine == "vllm"


def test_a_gpu_type_that_is_gone_shows_nothing() -> None:
    assert (
        observed_now(WANTED, [pool(H100)], around(serving()), {}, fleet(node("l", L4)), generation=1, spec=SPEC) == ()
    )


def test_the_status_remembers_and_its_schema_takes_it() -> None:
    seen = (
        *observe(tokens=400_000),
        *observe(where=failing_pool(), seen=around(crashed(OUT_OF_MEMORY))),
        *observe(where=replace(cut(Split(2, 2)), name="p"), seen=around(serving(), where="p"), tokens=900_000),
    )
    assert len(seen) == 3
    read_back = read(written(seen))
    assert read_back.complaints == ()
    assert remembered(read_back.observations, SPEC) == seen


def test_failures_are_forgotten_when_the_spec_changes_and_what_served_is_not() -> None:
    served, failed = observe(tokens=400_000), observe(where=failing_pool(), seen=around(crashed(TOO_SMALL)))
    assert remembered((*served, *failed), "another") == served


def test_entries_of_another_release_are_passed_over() -> None:
    (entry,) = written(observe(tokens=400_000))["observations"]
    unknown = [
        {**entry, "witness": "Oracle"},
        {**entry, "precision": "of-tomorrow"},
        {**entry, "engineVersion": "x"},
        {**entry, "engineVersion": "0.1.2.3.4.5"},
        {**entry, "release": "0.0.1"},
    ]
    assert [len(read({"observations": [each, entry]}).observations) for each in unknown] == [1] * len(unknown)


def test_the_latest_word_counts_and_serving_refutes_an_earlier_failure() -> None:
    first, second = observe(tokens=400_000), observe(tokens=390_000)
    failed = observe(where=failing_pool(), seen=around(crashed(OUT_OF_MEMORY)))
    assert merged(first, second) == second
    assert merged(first, failed) == (*first, *failed)
    assert merged((*first, *failed), second) == second


def test_no_more_is_kept_than_the_status_holds() -> None:
    (seen,) = observe(tokens=400_000)
    kinds = [replace(seen.observation.kind, split=Split(degree)) for degree in range(1, MOST_KEPT + 10)]
    many = [Seen(replace(seen.observation, kind=kind), SPEC) for kind in kinds]
    kept = merged(many, ())
    assert len(kept) == MOST_KEPT == most_items("observations")
    assert kept[-1] == many[-1]


def test_another_deployment_of_the_same_model_learns_it_too() -> None:
    (seen,) = observe(tokens=400_000)
    other = replace(WANTED, key=ObjectKey("ns", "other"), shape=replace(WANTED.shape, concurrency=4))
    learned = replace(other, corrections=lessons((), common([seen])))
    assert sized(learned, gpu(H100), Split(1))[1].learned_bytes != 0


def test_somebody_else_s_crash_without_figures_only_widens_the_band() -> None:
    failed = observe(where=failing_pool(), seen=around(crashed(OUT_OF_MEMORY)))
    learned = replace(WANTED, corrections=lessons((), common(failed)))
    before, after = (sized(wanted, gpu(H100), Split(1))[1] for wanted in (WANTED, learned))
    assert after.available_kv_bytes == before.available_kv_bytes
    assert after.margin_bytes > before.margin_bytes
    assert failed_starts(WANTED, ()) == ()


def test_a_crash_without_figures_outweighs_no_measurement() -> None:
    served = observe(tokens=440_000)
    failed = observe(where=failing_pool(), seen=around(crashed(OUT_OF_MEMORY)))
    for own, others in ((served, failed), (failed, served)):
        (kept,) = lessons(own, common(others))
        assert kept.exact


def test_a_failed_start_with_more_requests_than_declared_leaves_the_place_open() -> None:
    declared, more = failing_pool(), replace(failing_pool(), limits=StepLimits(sequences=WANTED.shape.concurrency * 2))
    one, other = (observe(where=each, seen=around(crashed(OUT_OF_MEMORY))) for each in (declared, more))
    assert failed_starts(WANTED, one) == ((H100, Split(1)),)
    assert failed_starts(WANTED, other) == ()
    fixed = replace(WANTED, engine=replace(WANTED.engine, max_sequences=WANTED.shape.concurrency * 2))
    assert failed_starts(fixed, other) == ((H100, Split(1)),)


def test_a_failed_start_counts_for_engines_of_that_kind_alone() -> None:
    failed = observe(where=failing_pool(), seen=around(crashed(OUT_OF_MEMORY)))
    eager = replace(WANTED, engine=replace(WANTED.engine, enforce_eager=True))
    assert failed_starts(WANTED, failed) == ((H100, Split(1)),)
    assert failed_starts(eager, failed) == ()


def test_an_object_s_own_engines_outweigh_those_of_others() -> None:
    own, others = observe(tokens=440_000), observe(tokens=300_000)
    (kept,) = lessons(own, common(others, others, others))
    (alone,) = lessons(own, ())
    assert kept == alone
    (shared,) = lessons((), common(others, own, others))
    assert shared.rest_bytes > kept.rest_bytes
    assert shared.below_bytes > 0


def test_a_figure_that_no_engine_can_have_teaches_nothing() -> None:
    assert observe(tokens=10_000_000) == ()


def test_an_older_engine_s_blocks_become_tokens_of_full_requests() -> None:
    wanted = request(facts_of("google__gemma-3-27b-it"))
    old = replace(wanted, engine=replace(wanted.engine, version=EngineVersion(0, 22)))
    settings, figures = sized(old, gpu(H100), Split(2))
    layout, standing = rank_layout(old, gpu(H100), Split(2), settings, 0), pool(H100, 2)
    told = {standing.name: layout.pool_blocks(figures.available_kv_bytes) * layout.block_tokens}
    (known,) = capacities(old, [standing], told, FLEET).values()
    assert known == pytest.approx(figures.kv_capacity_tokens, rel=0.001)
    assert known != pytest.approx(told[standing.name], rel=0.05)
    assert capacities(wanted, [standing], told, FLEET) == told


def test_a_status_keeps_forty_observations_the_newest_ones() -> None:
    (seen,) = observe(tokens=400_000)
    kinds = [replace(seen.observation.kind, split=Split(degree)) for degree in range(1, 51)]
    kept = merged([Seen(replace(seen.observation, kind=kind), SPEC) for kind in kinds], ())
    assert [each.observation.kind.split.tensor_parallel for each in kept] == list(range(11, 51))


def tokens_if_weights_took(share: float) -> int:
    """The tokens that an engine reports if it holds this share of the estimated weights and nothing else."""
    figures = sized(WANTED, gpu(H100), Split(1))[1]
    return int((figures.budget_bytes - figures.weights_bytes * share) // figures.kv_bytes_per_token)


@pytest.mark.parametrize(("share", "believed"), [(0.895, False), (0.905, True)])
def test_an_engine_is_believed_if_it_holds_nine_tenths_of_its_weights(
    share: float,
    believed: bool,  # noqa: FBT001 - a table's column
) -> None:
    assert bool(observe(tokens=tokens_if_weights_took(share))) is believed


def test_pools_that_show_nothing_hide_no_others() -> None:
    old, good = replace(pool(L4), generation=0), pool(H100)
    seen = Surroundings({good.name: (serving(),), old.name: (serving(),)}, {})
    tokens = {good.name: 400_000, old.name: 1000}
    for pools in ((old, good), (good, old), (replace(pool(L4), ready=0), good)):
        found = observed_now(WANTED, pools, seen, tokens, FLEET, generation=1, spec=SPEC)
        assert [each.observation.kind.gpu_type for each in found] == [H100]


def test_every_pool_that_serves_is_observed_on_its_own_gpu() -> None:
    both = (pool(L40S), pool(H100))
    seen = Surroundings({each.name: (serving(),) for each in both}, {})
    tokens = {both[0].name: 20_000, both[1].name: 400_000}
    there = fleet(node("h", H100, 8), node("l", L40S, 4))
    found = observed_now(WANTED, both, seen, tokens, there, generation=1, spec=SPEC)
    assert [each.observation.kind.gpu_type for each in found] == [L40S, H100]


def test_a_pool_that_is_not_too_large_teaches_nothing_by_an_old_crash() -> None:
    assert observe(where=pool(H100, ready=0), seen=around(crashed(OUT_OF_MEMORY))) == ()


def test_tokens_of_a_pool_or_a_gpu_that_is_not_known_stay_as_they_are() -> None:
    tokens = {"h100-sxm-80gb-tp1": 7, "other": 5}
    assert capacities(WANTED, [pool(H100)], tokens, fleet(node("l", L4))) == tokens
    assert capacities(WANTED, [pool(H100)], {}, FLEET) == {}
