"""Sentences about corrections: the figures, and the engines that count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.api.v1alpha1.status import EstimateStatus
from plimsoll.domain.decisions.observations import EngineKind, Observation, Witness
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.units import GIB
from plimsoll.memory.calibration import corrections
from plimsoll.status.signs import expected_bytes
from plimsoll.status.words.learned import Source, correction_words, learned_sentence, sources_of

KIND = EngineKind("org/m", Precision.BF16, KvPrecision.BF16, "l4-24gb", EngineVersion(0, 32), Split(2))
MEASURED = Observation(KIND, Witness.METRICS, 10 * GIB, 8 * GIB)
FAILED = Observation(KIND, Witness.OUT_OF_MEMORY, 10 * GIB, None)


def test_the_sum_and_each_term_are_named() -> None:
    logged = replace(
        MEASURED,
        predicted_weights_bytes=4 * GIB,
        weights_bytes=5 * GIB,
        predicted_activations_bytes=GIB,
        activations_bytes=GIB // 2,
    )
    (correction,) = corrections([logged])
    assert correction_words(correction) == (
        "the engine takes 2.00 GiB more than the memory law says (weights +1.00, activations -0.50, "
        "no single term +1.50)"
    )
    (less,) = corrections([replace(MEASURED, available_kv_bytes=11 * GIB)])
    assert "1.00 GiB less than" in correction_words(less)
    (byte,) = corrections([replace(MEASURED, available_kv_bytes=10 * GIB + 1)])
    assert "0.00 GiB less than" in correction_words(byte)
    (same,) = corrections([replace(MEASURED, available_kv_bytes=10 * GIB)])
    said = "the engine takes 0.00 GiB more than the memory law says (each term is as predicted)"
    assert correction_words(same) == said


def test_a_failure_without_a_figure_names_none() -> None:
    (correction,) = corrections([FAILED])
    assert "GiB" not in correction_words(correction)
    assert "ran out of memory" in learned_sentence(correction, ["a/b"])


def test_only_the_engines_that_count_are_named() -> None:
    (correction,) = corrections([MEASURED, FAILED])
    others = [Source("a/one", MEASURED), Source("a/two", MEASURED), Source("a/failed", FAILED)]
    foreign = Source("a/foreign", replace(MEASURED, kind=replace(KIND, gpu_type="l40s-48gb")))
    assert sources_of(correction, [*others, foreign]) == ["a/one", "a/two"]
    assert sources_of(correction, [*others, Source("my/own", MEASURED, is_own=True)]) == ["my/own"]
    (wide,) = corrections([FAILED])
    assert sources_of(wide, [Source("a/failed", FAILED), foreign]) == ["a/failed"]


def test_many_sources_are_counted() -> None:
    (correction,) = corrections([MEASURED])
    said = learned_sentence(correction, [f"ns/{number}" for number in range(7)])
    assert "Learned on l4-24gb x 2 from 7 engines (ns/0, ns/1, ns/2, ns/3 and 3 more)" in said
    few = learned_sentence(correction, [f"ns/{number}" for number in range(4)])
    assert "(ns/0, ns/1, ns/2, ns/3)" in few, "nobody is left to count"


def test_the_need_is_the_sum_of_all_terms_with_adapters_and_what_was_learned() -> None:
    terms = EstimateStatus.model_construct(
        weights_bytes=100_000,
        kv_cache_bytes=20_000,
        activations_bytes=3_000,
        cuda_graphs_bytes=400,
        overhead_bytes=50,
        adapters_bytes=6,
        learned_bytes=-1_000_000,
    )
    assert expected_bytes(terms) == 123_456 - 1_000_000


@pytest.mark.parametrize(
    ("below", "above", "words"),
    [
        (GIB, 2 * GIB, "; others take up to 1.00 GiB less and 2.00 GiB more"),
        (GIB // 2, 0, "; others take up to 0.50 GiB less and 0.00 GiB more"),
        (0, GIB // 4, "; others take up to 0.00 GiB less and 0.25 GiB more"),
        (0, 0, ""),
    ],
)
def test_how_far_apart_engines_are_is_said_of_several(below: int, above: int, words: str) -> None:
    (correction,) = corrections([MEASURED])
    apart = replace(correction, below_bytes=below, above_bytes=above)
    assert correction_words(apart) == correction_words(correction) + words
