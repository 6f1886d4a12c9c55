"""The other steps of running engines: only those that fit for sure, and none against the user or the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plimsoll.adapters.catalog import load_model_facts
from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.decisions.outcomes import Fit, Split
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.registry import engine_of
from plimsoll.placement.memo import Memo
from plimsoll.placement.options.engine_limits import other_steps, with_step
from tests.support.planning import ENGINE, H100, L40S, gpu, request

STEP_SIZES = (512, 1024, 2048, 4096, 8192)

ONE = Split(1)
KV_TOKENS = 100_000


def others(wanted: Request, kind: str = H100, runs: int | None = None) -> dict[int, int]:
    """Return the KV cache with each other step, of engines with the usual step or the one that ``runs`` says."""
    running = wanted if runs is None else with_step(wanted, runs)
    return {each.tokens: each.kv_tokens for each in other_steps(wanted, running, gpu(kind), ONE, KV_TOKENS, Memo())}


def fit(wanted: Request, kind: str, tokens: int) -> Fit:
    engine, changed = engine_of(wanted.engine.name), with_step(wanted, tokens)
    return engine.estimate(changed, gpu(kind), ONE, engine.settings(changed, gpu(kind), ONE)).fit


def test_all_steps_but_the_present_one_are_known_with_the_cache_that_they_leave() -> None:
    found = others(request())
    assert tuple(found) == STEP_SIZES[:-1]
    caches = [*found.values(), KV_TOKENS]
    assert caches == sorted(caches, reverse=True)
    assert caches[0] > KV_TOKENS, "a smaller step leaves more to the cache"


def test_a_larger_step_takes_what_the_memory_law_says_from_the_cache() -> None:
    engine, wanted = engine_of(request().engine.name), request()
    small, large = (
        engine.estimate(each, gpu(H100), ONE, engine.settings(each, gpu(H100), ONE)).kv_capacity_tokens
        for each in (with_step(wanted, 2048), wanted)
    )
    assert others(wanted, runs=2048)[8192] == KV_TOKENS - (small - large) < KV_TOKENS


def test_a_step_that_does_not_fit_for_sure_is_none_of_them() -> None:
    """Engines of this kind take a little more memory each time, until the largest step does not fit any more."""
    kind, seen = request().engine_kind(H100, ONE), set[int]()
    for taken in range(40 * GIB, 60 * GIB, GIB // 8):
        wanted = request(corrections=(Correction(kind, rest_bytes=taken),))
        fits = [tokens for tokens in STEP_SIZES if fit(wanted, H100, tokens) is Fit.SURE]
        assert set(others(wanted, runs=512)) == set(fits) - {512}
        seen.add(len(fits))
    assert {0, len(STEP_SIZES)} < seen, "there are amounts with which only some of the steps fit"


def test_a_step_that_the_user_has_written_stays() -> None:
    assert others(request(engine=replace(ENGINE, max_batched_tokens=2048)), runs=2048) == {}


def test_an_admins_figure_of_memory_knows_no_steps() -> None:
    overrides = replace(request().overrides, memory_per_gpu_bytes=60 * GIB)
    assert others(request(overrides=overrides)) == {}
    assert others(request())


def test_after_an_engine_ran_out_of_memory_nothing_is_tried() -> None:
    kind = request().engine_kind(H100, ONE)
    assert others(request(corrections=(Correction(kind, exact=False),))) == {}
    assert others(request(corrections=(Correction(kind),)))


def test_a_step_holds_a_token_of_each_request_and_no_more_than_all_of_them() -> None:
    assert min(others(request(context=4096, engine=replace(ENGINE, max_sequences=1024)))) == 1024
    assert max(others(request(context=1024, concurrency=4), runs=512)) == 4096


@pytest.mark.parametrize("name", ["Qwen/Qwen3-Next-80B-A3B-Instruct", "google/gemma-3-27b-it"])
def test_engines_that_may_need_their_step_get_no_smaller_one(name: str) -> None:
    """A step holds a block of a recurrent state, and a whole image."""
    model = load_model_facts(name)
    assert model is not None
    wanted: dict[str, Any] = {"context": 4096, "concurrency": 2}
    found = replace(request(**wanted), model=model, precision=model.checkpoint.precision)
    split = Split(4)
    running = with_step(found, 4096)
    steps = other_steps(found, running, gpu(H100), split, KV_TOKENS, Memo())
    assert [each.tokens for each in steps] == [8192]


def test_the_second_question_is_answered_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memo, wanted = Memo(), request()
    first = other_steps(wanted, wanted, gpu(H100), ONE, KV_TOKENS, memo)
    monkeypatch.setattr("plimsoll.placement.options.engine_limits.engine_of", None)
    assert other_steps(wanted, wanted, gpu(H100), ONE, KV_TOKENS, memo) == first
    with pytest.raises(TypeError):
        other_steps(wanted, wanted, gpu(L40S), ONE, KV_TOKENS, memo)
