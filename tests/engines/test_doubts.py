"""The doubts about an estimate: each has a cause, and a neighbour without the cause has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.decisions.observations import Correction
from plimsoll.domain.decisions.outcomes import Fit, Split
from plimsoll.domain.decisions.terms import DoubtKind
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.model import Evidence, ModelFacts, Sharding, Task, Weight
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.doubts import doubts_of
from plimsoll.engines.vllm.memory.estimate import estimate
from plimsoll.engines.vllm.memory.laws.laws import NEWEST_MEASURED, NEWEST_VERSION
from plimsoll.engines.vllm.settings import engine_settings
from plimsoll.placement.places.warnings import doubt_sentence
from tests.support.planning import H100, gpu, model, request
from tests.support.tables import every_case

QWEN3 = "Qwen/Qwen3-8B"
GPT_OSS = "openai/gpt-oss-20b"
LATENT = "deepseek-ai/DeepSeek-V2-Lite"
V = EngineVersion


def asked(facts: ModelFacts | str = QWEN3, release: EngineVersion = NEWEST_MEASURED, **changes: Any) -> Request:
    return request(facts, engine=EngineChoice(release), **changes)


def generic() -> ModelFacts:
    return replace(model(), evidence=Evidence.GENERIC)


def with_streams(streams: int) -> ModelFacts:
    """A model whose layers pass so many copies of the hidden state on."""
    facts = model()
    (kind,) = facts.kinds
    maps = Weight("hc_attn_fn", 24, streams * facts.hidden, Sharding.REPLICATED)
    return replace(facts, kinds=(replace(kind, weights=(*kind.weights, maps)),))


def kinds(wanted: Request) -> list[DoubtKind]:
    return [doubt.kind for doubt in doubts_of(wanted, gpu(H100), Split(1))]


def sentences(wanted: Request) -> Iterator[str]:
    return (doubt_sentence(doubt) for doubt in doubts_of(wanted, gpu(H100), Split(1)))


def fit(wanted: Request) -> Fit:
    settings = engine_settings(wanted, gpu(H100), Split(1))
    return estimate(wanted, gpu(H100), Split(1), settings).fit


def commanded(*unfollowed: str) -> Request:
    """An engine that somebody starts with options that no law covers."""
    return request(QWEN3, engine=EngineChoice(NEWEST_MEASURED, unfollowed=unfollowed, own_defaults=True))


def unconfirmed(*options: str) -> Request:
    """An engine that somebody starts with options that need files which are not known."""
    return request(QWEN3, engine=EngineChoice(NEWEST_MEASURED, unconfirmed=options, own_defaults=True))


DOUBTFUL = {
    DoubtKind.GENERIC_READING: (asked(generic()), asked(model())),
    DoubtKind.NEWER_RELEASE: (asked(release=V(9, 9, 9)), asked(release=V(0, 32, 7))),
    DoubtKind.RELEASE_NOT_MEASURED: (asked(release=NEWEST_VERSION), asked(release=NEWEST_MEASURED)),
    DoubtKind.FEW_STARTS: (asked(with_streams(4)), asked(with_streams(1))),
    DoubtKind.POOLING_NOT_MEASURED: (asked(replace(model(), task=Task.POOL)), asked(model())),
    DoubtKind.NOT_MEASURED: (asked(LATENT, V(0, 29)), asked(LATENT, V(0, 23))),
    DoubtKind.TRANSFORMERS_BACKEND: (asked(release=V(0, 8, 3)), asked(release=V(0, 8, 4))),
    DoubtKind.NOT_IN_RELEASE: (asked(GPT_OSS, V(0, 10)), asked(GPT_OSS, V(0, 10, 1))),
    DoubtKind.REMOTE_CODE: (asked("internlm/internlm2_5-7b-chat"), asked("zai-org/chatglm3-6b")),
    DoubtKind.FILES_NOT_KNOWN: (unconfirmed("--config-format mistral (needs params.json)"), unconfirmed()),
    DoubtKind.OPTIONS_NOT_CHECKED: (
        request(QWEN3, engine=EngineChoice(NEWEST_MEASURED, unchecked=("--device-ids 1",))),
        request(QWEN3, engine=EngineChoice(NEWEST_MEASURED)),
    ),
    DoubtKind.UNFOLLOWED_OPTIONS: (commanded("--moe-backend=triton"), commanded()),
}


def test_the_same_options_of_a_deployment_are_the_same_doubt() -> None:
    deployed = request(QWEN3, engine=EngineChoice(NEWEST_MEASURED, unfollowed=("--hf-overrides={}",)))
    assert kinds(deployed) == [DoubtKind.UNFOLLOWED_OPTIONS]


def test_every_kind_is_looked_at() -> None:
    assert set(DOUBTFUL) | {DoubtKind.SHARED_MEMORY, DoubtKind.FLOAT32} == set(DoubtKind)


@every_case("card", ("t4-16gb", "l40s-48gb", "rtx-5090-32gb", "mi300x-192gb", "a100-sxm-80gb", H100, "b200-sxm-180gb"))
def test_float32_is_a_doubt_where_kernels_may_lack_shared_memory(card: str) -> None:
    def seen(precision: Precision) -> bool:
        wanted = asked(precision=precision, kv_precision=KvPrecision.BF16)
        return DoubtKind.FLOAT32 in [each.kind for each in doubts_of(wanted, gpu(card), Split(1))]

    assert seen(Precision.FP32) is (card not in ("a100-sxm-80gb", H100, "b200-sxm-180gb"))
    assert not seen(Precision.BF16)


def test_a_gpu_that_shares_its_hosts_memory_is_never_sure_and_a_card_of_its_own_is() -> None:
    def seen(card: str) -> tuple[list[DoubtKind], Fit, Fit]:
        wanted = asked(release=V(0, 28))
        figures = estimate(wanted, gpu(card), Split(1), engine_settings(wanted, gpu(card), Split(1)))
        return [doubt.kind for doubt in figures.doubts], figures.fit_by_figures, figures.fit

    assert seen("gb10-128gb") == ([DoubtKind.SHARED_MEMORY], Fit.SURE, Fit.PROBABLE)
    assert seen(H100) == ([], Fit.SURE, Fit.SURE)


def test_of_a_shared_memory_no_more_is_asked_than_kits_in_use_have_free() -> None:
    """101 to 102 of 121.6 GiB were free on GB10 kits; the usual share of 92 % would ask for 111.9."""
    wanted, card = asked(), gpu("gb10-128gb")
    settings = engine_settings(wanted, card, Split(1))
    figures = estimate(wanted, card, Split(1), settings)
    assert figures.budget_bytes < 101 * GIB
    assert figures.has_room_outside
    given = replace(settings, gpu_memory_utilization_percent=92)
    assert estimate(wanted, card, Split(1), given).fit_of_bytes is Fit.PROBABLE
    assert engine_settings(wanted, gpu(H100), Split(1)).gpu_memory_utilization_percent == 92


@every_case(("kind", "pair"), DOUBTFUL.items(), ids=DOUBTFUL)
def test_a_doubt_makes_a_sure_fit_probable_and_its_neighbour_stays_sure(
    kind: DoubtKind, pair: tuple[Request, Request]
) -> None:
    doubtful, neighbour = pair
    assert {kind} <= set(kinds(doubtful)) <= {kind, DoubtKind.NOT_MEASURED}
    assert fit(doubtful) is Fit.PROBABLE
    assert kinds(neighbour) == []
    assert fit(neighbour) is Fit.SURE


@every_case("pair", DOUBTFUL.values(), ids=DOUBTFUL)
def test_an_engine_of_the_kind_that_served_removes_all_doubts(pair: tuple[Request, Request]) -> None:
    doubtful, _ = pair
    kind = doubtful.engine_kind(H100, Split(1))
    assert kinds(replace(doubtful, corrections=(Correction(kind),))) == []
    assert kinds(replace(doubtful, corrections=(Correction(kind, exact=False),))) == kinds(doubtful)
    elsewhere = doubtful.engine_kind(H100, Split(2))
    assert kinds(replace(doubtful, corrections=(Correction(elsewhere),))) == kinds(doubtful)


def test_pairs_that_no_start_had_are_a_list_in_plain_words() -> None:
    (said,) = sentences(asked(LATENT, V(0, 29)))
    assert said.startswith("No measured start had latent attention under model runner V2, so the estimate follows")
    states = asked("Qwen/Qwen3.5-27B", V(0, 23))
    (doubt,) = doubts_of(states, gpu("l4-24gb"), Split(2, 2))
    assert doubt_sentence(doubt).startswith(
        "No measured start had recurrent layers on Ada cards, Ada cards in engines with pipeline parallelism or "
        "recurrent layers in engines with pipeline parallelism, so the"
    )


def test_the_sentences_have_class_releases_and_the_release_asked() -> None:
    (backend,) = sentences(asked(release=V(0, 8, 3)))
    assert "vLLM 0.8.3 does not implement the model class Qwen3ForCausalLM; 0.8.4 or newer does." in backend
    lacking, unread = sentences(asked(GPT_OSS, V(0, 9, 2)))
    assert "vLLM 0.9.2 as published lacks the model class GptOssForCausalLM; 0.10.1 or newer has it." in lacking
    assert "the quantization method mxfp4" in unread
    (newer,) = sentences(asked(release=V(9, 9, 9)))
    assert "vLLM 9.9.9 is newer than 0.33.0" in newer
    assert newer.endswith("The newest release known here is 0.33.0: check the number.")
    (unmeasured,) = sentences(asked(release=V(0, 33)))
    assert unmeasured.startswith("No start of vLLM 0.33.0 was compared with the estimate")


@given(major=st.integers(0, 3), minor=st.integers(0, 60), patch=st.integers(0, 9), concurrency=st.integers(1, 64))
def test_no_release_after_the_last_measured_one_is_ever_sure(
    major: int, minor: int, patch: int, concurrency: int
) -> None:
    release = V(major, minor, patch)
    wanted = asked(release=max(release, V(0, 20)), concurrency=concurrency)
    measured = wanted.engine.version[:2] <= NEWEST_MEASURED[:2]
    assert (kinds(wanted) == []) == measured
    assert fit(wanted) is (Fit.SURE if measured else Fit.PROBABLE)


def test_quantization_while_loading_needs_its_method_too() -> None:
    nf4 = Precision.BITSANDBYTES
    assert kinds(asked(release=V(0, 28), precision=nf4)) == [DoubtKind.NOT_IN_RELEASE]
    assert kinds(asked(release=V(0, 27), precision=nf4)) == []
    assert kinds(asked(release=V(0, 28), precision=Precision.FP8)) == []


def test_a_checkpoint_that_is_only_imagined_needs_no_method() -> None:
    assert kinds(asked(precision=Precision.NVFP4)) == []
