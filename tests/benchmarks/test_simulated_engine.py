"""One simulated replica: its steps, its KV cache, its queue."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from benchmarks.rebalance.step_seconds import step_times
from plimsoll.adapters.catalog import load_gpu_types, load_model_facts
from plimsoll.domain.decisions.latency import Performance
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.performance.hardware_speed import speed_of
from plimsoll.performance.model import Load, performance
from plimsoll.simulation import engine as engine_module
from plimsoll.simulation.agenda import Agenda
from plimsoll.simulation.batch import BLOCK_TOKENS, Decoding, blocks_of
from plimsoll.simulation.engine import SIGNIFICANT_BITS, SimulatedEngine, rounded
from plimsoll.simulation.values import Arrival, Fate, SimulatedRequest
from tests.support.simulated import SPEC, engine, poisson, serve


def modelled(prompt: int, output: int) -> Performance:
    """The performance model's answer for one user."""
    model = load_model_facts(SPEC.model)
    assert model is not None
    gpu = next(each for each in load_gpu_types() if each.name == SPEC.gpu_type)
    load = Load(prompt, output, 1, inf)
    return performance(model, Precision.BF16, KvPrecision.BF16, gpu, Split(1), load, SPEC.max_batched_tokens)


def first_token_after(prompt: int, output: int) -> float:
    """The time to the first token of a request whose text is tokens already, as those of the simulator are."""
    gpu = next(each for each in load_gpu_types() if each.name == SPEC.gpu_type)
    text = prompt * speed_of(gpu).efficiency.prompt_token_seconds
    return modelled(prompt, output).typical_ttft_seconds - text


@pytest.mark.parametrize(("prompt", "output"), [(50, 400), (1000, 200), (8000, 2)])
def test_a_lone_request_takes_the_times_of_the_performance_model(prompt: int, output: int) -> None:
    (request,) = serve(engine(), Arrival(0.0, prompt, output))
    answered, expected = request.answered, modelled(prompt, output)
    assert answered.ttft_seconds == pytest.approx(first_token_after(prompt, output), rel=0.01)
    assert answered.tpot_seconds == pytest.approx(expected.tpot_seconds, rel=0.01)


def test_a_prompt_larger_than_a_step_takes_several() -> None:
    steps: list[int] = []
    (request,) = serve(
        engine(), Arrival(0.0, 20_000, 1), watch=lambda each: steps.append(each.plan.chunks[0][1] if each.plan else 0)
    )
    assert steps == [8192, 8192, 20_000 - 2 * 8192]
    assert request.answered.ttft_seconds == pytest.approx(first_token_after(20_000, 1), rel=0.05)
    assert request.answered.tpot_seconds is None


def test_many_steps_at_once_take_the_time_of_single_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    arrivals = [Arrival(0.0, each.prompt_tokens, each.output_tokens) for each in poisson(1, 500, 150, 40)(3)]
    jumping, plans = engine(kv_tokens=16_000), [0, 0]
    at_once = serve(jumping, *arrivals, watch=lambda _: plans.__setitem__(0, plans[0] + 1))
    monkeypatch.setattr(engine_module, "MOST_STEPS", 1)
    stepping = engine(kv_tokens=16_000)
    single = serve(stepping, *arrivals, watch=lambda _: plans.__setitem__(1, plans[1] + 1))
    assert plans[0] < plans[1] / 2
    assert jumping.totals.preemptions == stepping.totals.preemptions
    for one, other in zip(at_once, single, strict=True):
        assert one.first_token_at == pytest.approx(other.first_token_at, rel=0.005)
        assert one.finished_at == pytest.approx(other.finished_at, rel=0.005)


def test_the_context_grows_while_many_steps_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 150 requests the reads of the KV cache are most of a step, and 128 steps are longer than the prompt."""
    arrivals = [Arrival(0.0, 16, 1500)] * 150
    (at_once, *_) = serve(engine(), *arrivals)
    monkeypatch.setattr(engine_module, "MOST_STEPS", 1)
    (single, *_) = serve(engine(), *arrivals)
    assert at_once.finished_at == pytest.approx(single.finished_at, rel=0.005)


def test_a_request_in_the_middle_of_many_steps_waits_for_one_of_them() -> None:
    served, late = engine(), SimulatedRequest(Arrival(0.5, 100, 1))
    served.add(SimulatedRequest(Arrival(0.0, 100, 2000)), 0.0)
    served.begin(0.0)
    while served.plan is not None and served.plan.ends_at < 0.5:
        now = served.plan.ends_at
        served.end()
        served.begin(now)
    assert served.plan is not None
    assert served.plan.steps > 10
    expected = served.totals.generation_tokens + (0.5 - served.plan.begins_at) / served.plan.step_seconds
    served.add(late, 0.5)
    served.interrupt(0.5)
    assert 0.5 <= served.plan.ends_at <= 0.5 + served.plan.step_seconds
    assert expected - 1 < served.totals.generation_tokens <= expected


def test_a_request_that_cannot_be_admitted_does_not_shorten_the_steps() -> None:
    served = engine(max_num_seqs=1)
    served.add(SimulatedRequest(Arrival(0.0, 100, 500)), 0.0)
    served.begin(0.0)
    served.end()
    served.begin(0.1)
    assert served.plan is not None
    before = served.plan.ends_at
    served.add(SimulatedRequest(Arrival(0.2, 100, 1)), 0.2)
    served.interrupt(0.2)
    assert served.plan.ends_at == before


def crowd(count: int) -> list[Arrival]:
    rng = Random(5)  # noqa: S311 - a simulation
    return [Arrival(0.0, rng.randint(1, 3000), rng.randint(1, 400)) for _ in range(count)]


def test_no_limit_is_ever_passed() -> None:
    served = engine(kv_tokens=10_000, max_num_seqs=9, max_batched_tokens=512)
    most = [0, 0, 0]

    def watch(each: SimulatedEngine) -> None:
        assert each.plan is not None
        chunks = dict(each.plan.chunks)
        tokens = sum(chunks.values())
        decoding = each.running - len([request for request in each.requests() if request in chunks])
        assert 0 <= each.used_blocks <= each.total_blocks
        assert each.running <= 9
        assert tokens <= 512
        most[:] = max(most[0], each.used_blocks), max(most[1], each.running), max(most[2], tokens + decoding)

    requests = serve(served, *crowd(80), watch=watch)
    assert {request.fate for request in requests} == {Fate.SERVED}
    assert served.used_blocks == 0
    assert most[0] > 0.99 * served.total_blocks
    assert most[1] == 9
    assert most[2] == 512
    assert served.totals.preemptions > 0


@pytest.mark.parametrize(("blocks", "preemptions"), [(34, 0), (33, 1)])
def test_a_request_is_preempted_when_the_blocks_run_out_and_not_before(blocks: int, preemptions: int) -> None:
    """Two requests of 160 + 99 tokens at their end: 17 blocks each."""
    served = engine(kv_tokens=blocks * BLOCK_TOKENS)
    old, new = serve(served, Arrival(0.0, 160, 100), Arrival(0.0, 160, 100))
    assert served.totals.preemptions == preemptions
    assert (old.fate, new.fate) == (Fate.SERVED, Fate.SERVED)
    assert old.finished_at is not None
    assert new.finished_at is not None
    assert (new.finished_at > old.finished_at) is (preemptions > 0)
    assert served.totals.finished_output_tokens == served.totals.generation_tokens == 200
    assert served.totals.first_tokens == 2


@pytest.mark.parametrize(("blocks", "preemptions"), [(76, 0), (75, 1)])
def test_a_prompt_that_is_being_computed_is_preempted_before_an_older_request(blocks: int, preemptions: int) -> None:
    """A prompt of 60 blocks takes 50 steps of 20 tokens, and meanwhile the older request grows from 13 blocks to 16."""
    served = engine(kv_tokens=blocks * BLOCK_TOKENS, max_batched_tokens=20)
    old, new = SimulatedRequest(Arrival(0.0, 200, 45)), SimulatedRequest(Arrival(0.0, 960, 1))
    served.add(old, 0.0)
    served.add(new, 0.0)
    served.begin(0.0)
    while served.plan is not None:
        now = served.plan.ends_at
        served.end()
        served.begin(now)
    assert served.totals.preemptions == preemptions
    assert old.finished_at is not None
    assert new.first_token_at is not None
    assert (new.first_token_at - old.finished_at > 40 * 0.007) is (preemptions > 0)


@pytest.mark.parametrize(("seqs", "running"), [(4, 4), (10, 10)])
def test_no_more_requests_run_than_the_engine_may(seqs: int, running: int) -> None:
    seen: list[int] = []
    serve(
        engine(max_num_seqs=seqs),
        *(Arrival(0.0, 100, 50) for _ in range(10)),
        watch=lambda each: seen.append(each.running),
    )
    assert max(seen) == running


def test_a_cached_prefix_is_not_computed_once_the_replica_has_served() -> None:
    served = engine()
    first, second, other = (
        serve(served, Arrival(0.0, 4000, 1, cached))[0].first_token_at for cached in (3000, 3000, 0)
    )
    assert first is not None
    assert second is not None
    assert first == pytest.approx(other)
    assert second < 0.5 * first


def test_a_prompt_that_is_cached_as_a_whole_still_computes_its_last_block() -> None:
    served, computed = engine(), list[tuple[SimulatedRequest, int]]()
    serve(served, Arrival(0.0, 160, 1))
    serve(served, Arrival(0.0, 160, 1, 160), watch=lambda each: computed.extend(each.plan.chunks if each.plan else ()))
    assert [tokens for _, tokens in computed] == [16]


def test_the_queue_is_served_in_its_order_and_a_large_head_holds_up_the_others() -> None:
    served = engine(kv_tokens=2048)
    running, head, small = serve(served, Arrival(0.0, 1000, 50), Arrival(0.0, 1500, 1), Arrival(0.0, 16, 1))
    assert running.finished_at is not None
    assert head.first_token_at is not None
    assert small.first_token_at is not None
    assert head.first_token_at > running.finished_at
    assert small.first_token_at >= head.first_token_at


def test_without_the_large_head_the_small_request_runs_at_once() -> None:
    running, small = serve(engine(kv_tokens=2048), Arrival(0.0, 1000, 50), Arrival(0.0, 16, 1))
    assert running.finished_at is not None
    assert small.first_token_at is not None
    assert small.first_token_at < running.finished_at


@pytest.mark.parametrize(("prompt", "output"), [(0, 1), (1, 0), (1900, 200)])
def test_a_request_that_can_never_be_served_is_refused(prompt: int, output: int) -> None:
    served = engine(kv_tokens=2048)
    with pytest.raises(ValueError, match="request: "):
        served.add(SimulatedRequest(Arrival(0.0, prompt, output)), 0.0)
    served.add(SimulatedRequest(Arrival(0.0, 1848, 200)), 0.0)
    assert served.waiting == 1


def test_metrics_in_the_middle_of_many_steps_are_those_of_the_steps_that_have_ended() -> None:
    served = engine()
    served.add(SimulatedRequest(Arrival(0.0, 160, 100)), 0.0)
    served.begin(0.0)
    assert served.plan is not None
    begin = served.plan.ends_at
    served.end()
    served.begin(begin)
    step, end = served.plan.step_seconds, served.plan.ends_at
    sample = served.sample(begin + 20.5 * step)
    assert (sample.generation_tokens_total, sample.running, sample.waiting) == (21, 1, 0)
    assert sample.kv_usage == pytest.approx(blocks_of(160 + 20) / served.total_blocks)
    assert served.plan.ends_at == end
    assert (sample.prompt_tokens_total, sample.first_tokens_total, sample.finished_total) == (160, 1, 0)
    served.end()
    last = served.sample(end)
    assert (last.generation_tokens_total, last.running, last.kv_usage) == (100, 0, 0)
    assert (last.finished_total, last.finished_prompt_tokens_total, last.finished_output_tokens_total) == (1, 160, 100)


def test_blocks_and_lengths_are_those_of_counting_each_request() -> None:
    rng, decoding, lengths = Random(2), Decoding(), dict[SimulatedRequest, int]()  # noqa: S311 - a simulation
    for _ in range(300):
        request = SimulatedRequest(Arrival(0.0, rng.randint(1, 100), 1000), generated=1)
        request.computed = request.arrival.prompt_tokens
        decoding.join(request)
        lengths[request] = request.computed
        if rng.random() < 0.3:
            gone = rng.choice([*lengths])
            decoding.leave(gone)
            assert gone.generated == 1 + lengths.pop(gone) - gone.arrival.prompt_tokens
        free = rng.randint(0, 40)
        counted = steps_by_counting([*lengths.values()], free)
        assert (decoding.steps_within(free) if lengths else counted) == counted
        steps = min(counted, 3)
        decoding.advance(steps)
        lengths = {each: length + steps for each, length in lengths.items()}
        assert decoding.tokens == sum(lengths.values())
        assert decoding.blocks == sum(map(blocks_of, lengths.values()))


def steps_by_counting(lengths: list[int], free: int) -> int:
    steps, held = 0, sum(map(blocks_of, lengths))
    while lengths and sum(blocks_of(length + steps + 1) for length in lengths) <= held + free:
        steps += 1
    return steps


def test_lengths_are_rounded_to_a_hundredth() -> None:
    assert [rounded(number) for number in range(128)] == [*range(128)]
    for number in range(128, 100_000, 7):
        assert abs(rounded(number) / number - 1) <= 2**-SIGNIFICANT_BITS
    assert len({rounded(number) for number in range(1024, 2048)}) <= 2 ** (SIGNIFICANT_BITS - 1) + 1


@pytest.mark.parametrize(
    ("model", "gpu", "missing"), [("no/model", SPEC.gpu_type, "model"), (SPEC.model, "no-gpu", "gpu_type")]
)
def test_what_the_catalogue_does_not_have_is_named(model: str, gpu: str, missing: str) -> None:
    with pytest.raises(ValueError, match=f"{missing}: 'no"):
        step_times(model, gpu, 1)


def test_the_agenda_keeps_its_order_and_refuses_the_past() -> None:
    agenda, seen = Agenda(), list[str]()
    agenda.at(2.0, lambda: seen.append("second"))
    agenda.at(2.0, lambda: seen.append("third"))
    agenda.at(1.0, lambda: agenda.at(1.5, lambda: seen.append("first")))
    agenda.every(3.0, 2.0, 7.0, lambda: seen.append(f"at {agenda.now}"))
    agenda.run()
    assert seen == ["first", "second", "third", "at 3.0", "at 5.0"]
    with pytest.raises(ValueError, match=r"4\.0 s is over"):
        agenda.at(4.0, agenda.run)
