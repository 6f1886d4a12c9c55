"""The laws of overhead against 119 starts, fitted and held out: how far off they are, and how often inside the band."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pytest

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.memory.laws.laws import law_for
from plimsoll.engines.vllm.memory.laws.rocm_attention import spills_attention
from tests.memory.overhead_rows import ROWS, Row
from tests.memory.sums import cuda_graphs_bytes, width_bytes
from tests.support.tables import every_case

PLANNER = [row for row in ROWS if row.of_planner]
LOGS = [row for row in ROWS if not row.of_planner]
NVIDIA = [row for row in LOGS if row.vendor == "nvidia" and not row.unified]
GUESSED_WRONG = "llmd-mistral-small-3.2"
"""2.8 GiB leaner than the default of 1,024 sequences allows; its flags are not stated."""


def errors(rows: Sequence[Row]) -> tuple[float, float, float]:
    """Median, ninth decile and worst of the absolute residuals, GiB."""
    sizes = sorted(abs(row.residual_gib) for row in rows)
    return median(sizes), sizes[int(0.9 * (len(sizes) - 1) + 0.5)], sizes[-1]


@every_case("row", PLANNER, ids=lambda row: row.id)
def test_activations_of_fully_measured_starts_are_met_within_a_tenth_of_a_gib(row: Row) -> None:
    assert row.activations_gib == pytest.approx(row.activation_gib, abs=0.08)


def test_overhead_of_fully_measured_starts() -> None:
    """Worst are the two Granite 3 models, whose non-torch memory is 0.21 GiB above every other model's."""
    middle, ninth, worst = errors(PLANNER)
    assert middle <= 0.02
    assert ninth <= 0.10
    assert worst <= 0.24


@pytest.mark.parametrize(
    ("held_out", "tensor_parallel", "most"),
    [
        (False, False, (0.10, 0.50)),
        (True, False, (0.05, 0.10)),
        (False, True, (0.35, 1.0)),
        (True, True, (0.10, 0.10)),
    ],
    ids=["fitted-one-gpu", "held-out-one-gpu", "fitted-many", "held-out-many"],
)
def test_overhead_of_nvidia_logs(*, held_out: bool, tensor_parallel: bool, most: tuple[float, float]) -> None:
    """Median and ninth decile, GiB. The widest errors are 0.10.1 builds that sampled with FlashInfer."""
    rows = [row for row in NVIDIA if row.held_out is held_out and (row.tp > 1) is tensor_parallel]
    middle, ninth, _ = errors(rows)
    assert (middle, ninth) <= most
    assert ninth <= most[1]


def _spills(row: Row) -> bool:
    return spills_attention(row.facts, row.law.release, row.attention)


def test_overhead_on_amd_cards_with_rocms_own_attention() -> None:
    rows = [row for row in LOGS if row.vendor == "amd" and not _spills(row)]
    assert len(rows) == 16
    assert errors(rows)[2] <= 0.66
    assert errors(rows)[0] <= 0.2


def test_overhead_on_amd_cards_with_tritons_attention() -> None:
    """Builds of ROCm and Triton decide how much scratch memory it takes: the law has the median of the starts."""
    rows = [row for row in LOGS if row.vendor == "amd" and _spills(row)]
    old = [row for row in rows if row.law.release < EngineVersion(0, 14)]
    assert len(old) == 10
    assert median(row.residual_gib for row in old) == pytest.approx(0, abs=0.2)
    assert all(row.inside for row in rows)
    assert max(row.residual_gib for row in rows) > 0.9
    assert min(row.residual_gib for row in rows) < -1.5


def test_the_band_of_amd_cards_is_of_use_where_the_kernel_is_known() -> None:
    known = [row for row in LOGS if row.vendor == "amd" and not _spills(row) and "Next" not in row.model]
    assert len(known) == 14
    assert all(width_bytes(row.band) <= (1.0 + 0.015 * row.total_gib) * GIB for row in known)


def test_nine_in_ten_lie_inside_the_band() -> None:
    for rows in (PLANNER, LOGS, NVIDIA, [row for row in LOGS if row.held_out]):
        assert sum(row.inside for row in rows) >= 0.9 * len(rows)
    assert [row.id for row in ROWS if not row.inside] == [GUESSED_WRONG]


def test_no_start_needs_more_than_the_band_says() -> None:
    """The side that ends in "out of memory": what is called a sure fit must be one."""
    assert all(row.residual_gib * GIB <= row.band.high_bytes for row in ROWS)


def test_the_band_of_what_is_well_known_is_narrow() -> None:
    """At most 1 GiB and 1.5 % of the card on NVIDIA, 0.11 to 0.24, but for recurrent layers on cards of 24 GiB."""
    recent = [row for row in [*PLANNER, *NVIDIA] if [0, 11] <= row.version < [0, 25]]
    known = [row for row in recent if row.capability != [10, 0]]
    wide = [row for row in known if width_bytes(row.band) > GIB + 0.015 * row.card.usable_bytes]
    assert {row.model for row in wide} <= {"Qwen3.5-4B", "Qwen3.5-9B", "Qwen3.5-27B"}
    assert len(known) > 60


@pytest.mark.parametrize(("stages", "tokens"), [(2, 1_075_312), (4, 2_257_264)])
def test_the_last_pipeline_stage_is_short_first_because_it_samples(stages: int, tokens: int) -> None:
    """Llama-3.1-8B on vLLM 0.19.0: the engine gave every stage the tokens that the last had room for."""
    first = next(row for row in PLANNER if row.pp == stages)
    kv_gib = tokens * (32 // stages) * 2 * 8 * 128 * 2 / GIB
    alone = next(row for row in PLANNER if row.model == first.model and row.pp == row.tp == 1 and row.dtype_bytes == 2)
    measured = first.utilization * first.total_gib - first.weights_gib - kv_gib
    assert measured == pytest.approx(alone.computed_gib, abs=0.06)


@every_case("row", [row for row in PLANNER if row.pp == 1], ids=lambda row: row.id)
def test_captured_graphs_are_those_of_the_log(row: Row) -> None:
    assert row.graphs_gib is not None
    assert row.graphs.actual_bytes / GIB == pytest.approx(row.graphs_gib, abs=0.42)
    assert row.graphs.estimated_bytes == 0


def test_estimates_of_graphs_are_those_that_0_19_logged_without_charging_them() -> None:
    """Equal models log estimates 1.1 GiB apart (Llama-3.1-8B: 0.84 at TP1, 1.69 at TP2, 0.57 at TP4)."""
    charging = law_for(EngineVersion(0, 21))
    rows = [row for row in PLANNER if row.graph_estimate_gib is not None]
    errors_gib = sorted(
        abs(
            cuda_graphs_bytes(
                row.facts, row.split, charging, row.card, sequences=row.sequences, batched_tokens=row.batched_tokens
            ).estimated_bytes
            / GIB
            - (row.graph_estimate_gib or 0)
        )
        for row in rows
    )
    assert len(rows) == 33
    assert median(errors_gib) <= 0.07
    assert errors_gib[int(0.75 * len(errors_gib))] <= 0.28
