"""The catalogue's speeds: every GPU type has one, and slices have their share."""

from __future__ import annotations

import pytest

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.domain.cluster.gpus import GpuType, Interconnect, WeightKind
from tests.support.tables import every_case

TYPES = {card.name: card for card in load_gpu_types()}


@every_case("card", TYPES.values(), ids=lambda card: card.name)
def test_every_type_has_a_speed_with_shares_below_its_peaks(card: GpuType) -> None:
    assert card.speed is not None
    each = card.speed.efficiency
    shares = (each.read_16bit, each.read_8bit, each.read_4bit, each.kv_read, each.product_16bit, each.attention)
    assert all(0 < share <= 1 for share in shares)
    assert all(0 < share <= 1 for share in (each.product_8bit, each.product_4bit, each.expert_spread))
    bands = [band for both in card.speed.trust.bands for band in both]
    assert len(bands) == 2 * len(WeightKind)
    assert all(low < 1 < high for band in bands for low, high in (band.tpot, band.ttft))


def test_cards_that_share_memory_with_the_host_have_no_neighbours() -> None:
    alone = {card.name for card in TYPES.values() if card.speed is not None and card.speed.links is None}
    assert {card.name for card in TYPES.values() if card.unified_memory} <= alone


def test_links_are_those_of_the_same_kind_and_the_nearest_rate() -> None:
    def measured(name: str) -> float:
        speed = TYPES[name].speed
        assert speed is not None
        assert speed.links is not None
        return speed.links.measured_gb_per_second

    assert measured("h100-sxm-80gb") == measured("h200-sxm-141gb") == measured("mi300x-192gb") == 450
    assert measured("h100-pcie-80gb") == measured("rtx-5090-32gb") == 63
    assert measured("l4-24gb") == measured("t4-16gb") == 31
    assert TYPES["h100-pcie-80gb"].interconnect is Interconnect.PCIE


def test_two_gpus_of_a_mesh_have_one_of_its_links() -> None:
    speed = TYPES["mi300x-192gb"].speed
    assert speed is not None
    assert speed.links is not None
    assert (speed.links.gb_per_second, speed.links.pair_gb_per_second) == (448, 64)


def test_a_slice_computes_its_share_and_works_alone() -> None:
    card, part = TYPES["h100-sxm-80gb"].speed, TYPES["h100-sxm-80gb-mig-3g.40gb"].speed
    assert card is not None
    assert part is not None
    assert part.peaks.bf16 == pytest.approx(card.peaks.bf16 * 3 / 7)
    assert part.peaks.fp8 == pytest.approx((card.peaks.fp8 or 0) * 3 / 7)
    assert part.links is None
    assert part.efficiency == card.efficiency


def test_families_with_rows_are_told_from_those_without() -> None:
    trusts = {name: card.speed.trust for name, card in TYPES.items() if card.speed is not None}
    assert trusts["b200-sxm-180gb"].name == "measured"
    assert trusts["l40-48gb"].name == "family"
    assert trusts["t4-16gb"].name == trusts["mi300x-192gb"].name == "unknown"
    wide, usual = (trusts[name].band(WeightKind.DENSE_16BIT, 1).tpot for name in ("t4-16gb", "h100-sxm-80gb"))
    assert wide[0] < usual[0] < usual[1] < wide[1]


def test_only_kinds_of_weights_and_loads_with_many_rows_are_validated() -> None:
    speed, other = TYPES["b200-sxm-180gb"].speed, TYPES["gb200-186gb"].speed
    assert speed is not None
    assert other is not None
    few, many = (speed.trust.band(WeightKind.EXPERTS_8BIT, sequences) for sequences in (128, 129))
    assert few.is_validated
    assert many.is_validated
    assert few.tpot != many.tpot
    assert not speed.trust.band(WeightKind.DENSE_4BIT_INTEGER, 1).is_validated
    assert not any(band.is_validated for both in other.trust.bands for band in both)
