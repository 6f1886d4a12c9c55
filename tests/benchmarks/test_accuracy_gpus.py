"""A card without a name gets no type in silence: one type is assumed and said, several stay open."""

from __future__ import annotations

import pytest

from benchmarks.accuracy.hardware import hardware_of
from benchmarks.accuracy.ours import Ours
from benchmarks.accuracy.prediction import Prediction, Verdict
from benchmarks.accuracy.reading.gpus import find_gpu
from benchmarks.accuracy.setups import GPU_TYPE, Setup
from plimsoll.domain.cluster.gpus import Vendor
from tests.support.accuracy import setup
from tests.support.planning import gpu
from tests.support.tables import every_case


def types(total_gib: float, name: str | None = None) -> set[str]:
    found = find_gpu(name, total_gib)
    assert found is not None
    return {each.name for each in found.possible}


def answer(of: Setup) -> Prediction:
    return Ours().predict([of])[0]


def test_a_total_that_several_types_have_names_none_of_them() -> None:
    found = find_gpu(None, 79.2)
    assert found is not None
    assert found.gpu.name == "unnamed-80gb"
    assert {"a100-sxm-80gb", "h100-sxm-80gb"} <= {each.name for each in found.possible}
    assert {each.usable_bytes for each in found.possible} == {int(79.2 * 2**30)}


def test_a_total_that_one_type_has_is_taken_for_it() -> None:
    found = find_gpu(None, 139.8)
    assert found is not None
    assert (found.gpu.name, types(139.8)) == ("h200-sxm-141gb", {"h200-sxm-141gb"})


def test_a_named_card_is_of_its_type_whatever_others_have_its_memory() -> None:
    for name, kind in (("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"), ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb")):
        found = find_gpu(name, 79.2)
        assert found is not None
        assert (found.gpu.name, found.possible) == (kind, ())


def test_a_total_that_no_type_has_may_be_any_of_about_that_memory() -> None:
    assert {"b200-sxm-180gb", "gb200-186gb"} <= types(184.31)


def test_a_vendor_without_a_type_leaves_its_own_cards() -> None:
    found = find_gpu("AMD Radeon RX 7600 XT", 15.98)
    assert found is not None
    assert {each.vendor for each in found.possible} == {Vendor.AMD}
    assert {"v100-sxm2-16gb", "rx-9070-xt-16gb"} <= types(15.98, "Some Accelerator")


def test_the_type_of_an_unnamed_card_counts_as_assumed_even_of_a_complete_command() -> None:
    assert setup(gpu=None, total_gib=79.2, complete=True).assumed == (GPU_TYPE,)
    assert setup(gpu=None, total_gib=139.8, complete=True).assumed == (GPU_TYPE,)
    assert setup(total_gib=79.2, complete=True).assumed == ()


def test_an_unnamed_card_gets_the_widest_band_of_its_possible_types() -> None:
    """Also the flags that the engine chooses by the type: an A100 gets 2,048 tokens a step, an H100 8,192."""
    unnamed = setup(gpu=None, total_gib=79.2, complete=True)
    alone = [
        answer(setup(gpu=name, total_gib=79.2, complete=True)) for name in ("NVIDIA H100 80GB", "NVIDIA A100 80GB")
    ]
    assert {each.max_num_batched_tokens for each in unnamed.possible} == {2048, 8192}
    said = answer(unnamed)
    assert (said.kv_low_gib or 0) <= min(each.kv_low_gib or 0 for each in alone)
    assert (said.kv_high_gib or 0) >= max(each.kv_high_gib or 0 for each in alone)
    assert said.note is not None
    assert "h100-sxm-80gb" in said.note


@pytest.mark.parametrize(
    ("length", "on_a100", "on_h100", "said"),
    [
        (440_000, Verdict.SURE, Verdict.SURE, Verdict.SURE),
        (480_000, Verdict.SURE, Verdict.PROBABLE, Verdict.PROBABLE),
        (520_000, Verdict.NO, Verdict.NO, Verdict.NO),
    ],
)
def test_the_verdict_on_an_unnamed_card_is_that_of_all_types_or_probable(
    length: int, on_a100: Verdict, on_h100: Verdict, said: Verdict
) -> None:
    cards = ("NVIDIA A100 80GB", "NVIDIA H100 80GB", None)
    found = [answer(setup(gpu=card, total_gib=79.2, complete=True, max_model_len=length)).verdict for card in cards]
    assert found == [on_a100, on_h100, said]


@every_case(
    ("name", "kind"),
    [
        ("h100-sxm-80gb", "NVIDIA Hopper"),
        ("a100-sxm-80gb", "NVIDIA Ampere"),
        ("l40s-48gb", "NVIDIA Ada"),
        ("t4-16gb", "NVIDIA Turing"),
        ("b200-sxm-180gb", "NVIDIA Blackwell, data centre"),
        ("b300-sxm-288gb", "NVIDIA Blackwell, data centre"),
        ("rtx-pro-6000-bse-96gb", "NVIDIA Blackwell, graphics"),
        ("gb10-128gb", "unified memory"),
        ("jetson-agx-orin-64gb", "unified memory"),
        ("mi300x-192gb", "AMD CDNA"),
        ("rx-9070-xt-16gb", "AMD RDNA"),
    ],
)
def test_the_class_of_hardware(name: str, kind: str) -> None:
    assert hardware_of(gpu(name)) == kind


def test_a_card_of_an_unknown_type_is_a_class_of_its_own() -> None:
    assert hardware_of(setup(gpu=None, total_gib=79.2).gpu) == "card without a name"
    assert hardware_of(None) == "no card stated"
