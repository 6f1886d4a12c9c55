"""Laws of the estimate: whatever the load, more of it never needs less."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Split
from plimsoll.domain.models.model import Task
from plimsoll.domain.requests.serving import Overrides, Request
from plimsoll.engines.vllm.memory.estimate import estimate, least_bytes
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.memory.load import replica_tokens
from plimsoll.placement.options.feasibility import may_fit, sized
from tests.laws.strategies import any_gpu, pooling, requests
from tests.support.tables import examples

degrees = st.sampled_from([1, 2, 4, 8])
splits = st.sampled_from([Split(1), Split(4), Split(1, 2), Split(2, 2)])


def figures(wanted: Request, kind: GpuType, degree: int) -> MemoryEstimate:
    split = Split(degree)
    return estimate(wanted, kind, split, engine_settings(wanted, kind, split))


@given(requests(), any_gpu, degrees)
@settings(max_examples=examples(150), deadline=None)
def test_no_term_is_negative_and_all_are_whole_bytes(wanted: Request, kind: GpuType, degree: int) -> None:
    seen = figures(wanted, kind, degree)
    others = ("terms", "forced_bytes", "max_sequences", "max_sequences_high", "doubts", "taught_by", "given_cache")
    values = [getattr(seen, field.name) for field in fields(seen) if field.name not in others]
    values += [term.size_bytes for term in seen.terms]
    assert all(type(value) is int and value >= 0 for value in values)
    assert seen.budget_bytes + seen.outside_bytes <= seen.usable_bytes or seen.budget_bytes <= seen.usable_bytes // 100


@given(requests(), any_gpu, degrees, st.integers(1, 100_000), st.integers(0, 512))
@settings(max_examples=examples(150), deadline=None)
def test_more_context_or_more_requests_never_need_less(
    wanted: Request, kind: GpuType, degree: int, longer: int, wider: int
) -> None:
    shape = wanted.shape
    more = replace(shape, context_tokens=shape.context_tokens + longer, concurrency=shape.concurrency + wider)
    less, greater = figures(wanted, kind, degree), figures(replace(wanted, shape=more), kind, degree)
    assert greater.needed_bytes >= less.needed_bytes
    assert greater.kv_needed_tokens >= less.kv_needed_tokens
    assert greater.fit is Fit.NO or less.fit is not Fit.NO
    assert greater.fit is not Fit.SURE or less.fit is Fit.SURE


@given(pooling(), any_gpu, splits, st.integers(1, 100_000), st.integers(1, 512))
@settings(max_examples=examples(150), deadline=None)
def test_the_cache_of_what_pools_grows_with_a_step_and_a_request_and_not_with_what_waits(
    wanted: Request, kind: GpuType, split: Split, longer: int, wider: int
) -> None:
    shape = wanted.shape
    step = max(engine_settings(wanted, kind, split).max_num_batched_tokens, shape.concurrency + wider)
    fixed = replace(wanted, engine=replace(wanted.engine, max_batched_tokens=step))

    def found(concurrency: int, context: int = shape.context_tokens) -> MemoryEstimate:
        changed = replace(fixed, shape=replace(shape, concurrency=concurrency, context_tokens=context))
        return estimate(changed, kind, split, engine_settings(changed, kind, split))

    now, waiting = found(shape.concurrency), found(shape.concurrency + wider)
    at_most = shape.context_tokens + split.pipeline_parallel * step
    assert shape.context_tokens <= now.kv_needed_tokens <= waiting.kv_needed_tokens <= at_most
    assert found(1).kv_cache_bytes <= now.kv_cache_bytes <= waiting.kv_cache_bytes
    assert found(shape.concurrency, shape.context_tokens + longer).kv_cache_bytes >= now.kv_cache_bytes
    if shape.concurrency > 1 and found(shape.concurrency - 1).kv_needed_tokens == at_most:
        assert waiting.kv_cache_bytes == now.kv_cache_bytes


@given(pooling(), any_gpu, splits)
@settings(max_examples=examples(100), deadline=None)
def test_a_neighbour_that_generates_with_the_same_layers_holds_all_its_requests(
    wanted: Request, kind: GpuType, split: Split
) -> None:
    chosen = engine_settings(wanted, kind, split)
    neighbour = replace(wanted, model=replace(wanted.model, task=Task.GENERATE))
    found = estimate(neighbour, kind, split, chosen)
    assert found.kv_needed_tokens == replica_tokens(wanted.shape, split)
    assert found.kv_cache_bytes >= estimate(wanted, kind, split, chosen).kv_cache_bytes


@given(requests(), any_gpu, degrees, st.integers(0, 64 * 1024))
@settings(max_examples=examples(150), deadline=None)
def test_what_fits_a_gpu_fits_one_of_the_same_kind_with_more_memory(
    wanted: Request, kind: GpuType, degree: int, more_mib: int
) -> None:
    larger = replace(kind, usable_bytes=kind.usable_bytes + more_mib * 1024**2)
    step = engine_settings(wanted, kind, Split(degree)).max_num_batched_tokens
    fixed = replace(wanted, engine=replace(wanted.engine, max_batched_tokens=step))
    assume(figures(fixed, kind, degree).fit_by_figures is Fit.SURE)
    assert figures(fixed, larger, degree).fit_by_figures is Fit.SURE


@given(requests(), any_gpu, degrees)
@settings(max_examples=examples(150), deadline=None)
def test_a_rank_of_a_wider_split_never_holds_more_weights(wanted: Request, kind: GpuType, degree: int) -> None:
    seen, wider = figures(wanted, kind, degree), figures(wanted, kind, 2 * degree)
    # Kernels for MXFP4 round the expert width of a rank up: a narrower rank can round further than it shrinks.
    slack = 0 if wanted.model.experts is None else seen.weights_bytes // 20
    assert wider.weights_bytes <= seen.weights_bytes + slack
    assert wider.kv_bytes_per_token <= seen.kv_bytes_per_token


@given(requests(), any_gpu, splits)
@settings(max_examples=examples(150), deadline=None)
def test_an_estimate_never_needs_less_than_its_quick_bound(wanted: Request, kind: GpuType, split: Split) -> None:
    chosen = engine_settings(wanted, kind, split)
    tokens = chosen.max_num_batched_tokens
    least = least_bytes(wanted, kind, split, batched_tokens=tokens)
    assert 0 < least <= estimate(wanted, kind, split, chosen).expected_bytes
    forced = replace(wanted, overrides=Overrides(memory_per_gpu_bytes=2**30))
    assert least_bytes(forced, kind, split, batched_tokens=tokens) == 0


@given(requests(), any_gpu, splits)
@settings(max_examples=examples(150), deadline=None)
def test_what_fits_for_sure_is_never_left_out_by_the_quick_bound(wanted: Request, kind: GpuType, split: Split) -> None:
    _, seen = sized(wanted, kind, split)
    assert may_fit(wanted, kind, split) or seen.fit is not Fit.SURE


@given(any_gpu)
def test_equal_gpu_types_have_equal_hashes_and_others_are_told_apart(kind: GpuType) -> None:
    same, other = replace(kind), replace(kind, host_bandwidth_gb_per_second=kind.host_bandwidth_gb_per_second + 1)
    assert (hash(same), same) == (hash(kind), kind)
    assert other != kind
