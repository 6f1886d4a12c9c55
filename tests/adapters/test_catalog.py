"""The catalogue that ships with the package holds what it promises."""

from __future__ import annotations

import re
import weakref
from decimal import Decimal
from fractions import Fraction

import pytest

from plimsoll.adapters import catalog
from plimsoll.domain.cluster.gpus import Interconnect, Vendor
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.model import FactsSource
from plimsoll.domain.models.precision import Precision
from plimsoll.domain.units import GIB, MIB
from plimsoll.facts.models.refusals import count_parameters
from plimsoll.memory.residency import resident_weights
from tests.support.tables import every_case

WANTED = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-32B-FP8",
    "Qwen/Qwen3-30B-A3B",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "mistralai/Mistral-7B-Instruct-v0.3",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "google/gemma-2-9b-it",
    "Qwen/Qwen3.6-27B",
    "Qwen/Qwen3.6-35B-A3B",
    "Qwen/Qwen3.8-27B",
    "google/gemma-4-31B-it",
    "google/gemma-4-26B-A4B-it",
)


@every_case("name", WANTED)
def test_popular_models_are_catalogued(name: str) -> None:
    facts = catalog.load_model_facts(name)
    assert facts is not None
    assert (facts.name, facts.source, facts.revision) == (name, FactsSource.CATALOG, None)


def test_every_model_of_the_catalogue_can_be_read_and_counts_near_its_total() -> None:
    assert len(catalog.catalogued_models()) >= 45
    for name in catalog.catalogued_models():
        facts = catalog.load_model_facts(name)
        assert facts is not None
        count = count_parameters(facts)
        assert facts.parameters is None or count == pytest.approx(facts.parameters, rel=0.001), name


@every_case(
    ("name", "gigabytes"),
    [
        ("Qwen/Qwen3.6-27B", 51.0),
        ("Qwen/Qwen3.6-27B-FP8", 28.43),
        ("Qwen/Qwen3.8-27B-FP8", 28.43),
        ("Lorbus/Qwen3.6-27B-int4-AutoRound", 17.69),
        ("google/gemma-4-31B-it", 58.7),
        ("cyankiwi/gemma-4-31B-it-AWQ-4bit", 19.46),
        ("cyankiwi/gemma-4-26B-A4B-it-AWQ-4bit", 16.0),
    ],
)
def test_weights_of_partly_quantized_checkpoints_are_near_those_that_people_report(name: str, gigabytes: float) -> None:
    """The sources of the figures stand in the entries. A later head for speculation is no part of the model."""
    facts = catalog.load_model_facts(name)
    assert facts is not None
    assert resident_weights(facts, facts.checkpoint.precision, Split(1), None).gpu_bytes / GIB == pytest.approx(
        gigabytes, rel=0.03
    )


def test_an_unknown_model_has_no_facts() -> None:
    assert catalog.load_model_facts("nobody/nothing") is None
    assert catalog.load_model_facts("META-LLAMA/LLAMA-3.1-8B-INSTRUCT") is None


def test_a_sibling_shares_the_shape_but_for_its_changes() -> None:
    plain = catalog.load_model_facts("Qwen/Qwen3-30B-A3B")
    fp8 = catalog.load_model_facts("Qwen/Qwen3-30B-A3B-FP8")
    assert plain is not None
    assert fp8 is not None
    assert (plain.checkpoint.precision, fp8.checkpoint.precision) == (Precision.BF16, Precision.FP8)
    assert (plain.experts, plain.order, plain.layers) == (fp8.experts, fp8.order, fp8.layers)
    assert [kind.caches for kind in plain.kinds] == [kind.caches for kind in fp8.kinds]


def test_gpu_types_are_plausible() -> None:
    types = catalog.load_gpu_types()
    assert len([gpu for gpu in types if not gpu.is_slice]) >= 79
    for gpu in types:
        assert 0.95 * gpu.total_bytes < gpu.usable_bytes <= gpu.total_bytes, gpu.name
        assert gpu.scale_up_gpus >= 1
        assert gpu.product_labels
        assert (gpu.compute_capability is None) is (gpu.vendor is Vendor.AMD)
        assert (gpu.gfx is None) is (gpu.vendor is Vendor.NVIDIA)
        assert gpu.host_bandwidth_gb_per_second >= 1
        assert gpu.price is None or (gpu.price.usd_per_hour > 0 and gpu.price.source.startswith("catalog: "))
        assert gpu.price is None or gpu.is_slice or (gpu.price.market is not None and gpu.price.market.origin)
        assert gpu.family in {"datacenter", "geforce", "rtx-pro", "embedded", "instinct", "radeon"}


def test_the_shipped_price_list_must_be_without_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"prices.csv": "gpu_type,usd_per_hour\nl4,1\n", "gpus.json": catalog._text("gpus.json")}  # noqa: SLF001
    monkeypatch.setattr(catalog, "_text", texts.__getitem__)
    with pytest.raises(ValueError, match=r"prices cannot be used: catalog: line 2: gpu_type: 'l4' is no GPU type"):
        catalog.load_gpu_types.__wrapped__()


def test_every_usable_memory_is_measured_or_follows_the_stated_law() -> None:
    for entry in catalog._document("gpus.json")["gpus"]:  # noqa: SLF001
        total = entry["total_mib"]
        law = total - 400 - -(-total * 6 // 1000)
        if entry["usable_from"] == "law":
            assert entry["usable_mib"] == law, entry["name"]
        else:
            assert entry["usable_mib"] >= law, entry["name"]


def test_what_shares_the_hosts_memory_says_so() -> None:
    shared = {gpu.name for gpu in catalog.load_gpu_types() if gpu.unified_memory}
    assert shared == {"gb10-128gb", "jetson-agx-orin-64gb", "jetson-agx-thor-128gb"}


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [("t4-16gb", 12), ("a100-sxm-80gb", 25), ("h100-sxm-80gb", 50), ("b300-sxm-288gb", 100), ("gh200-96gb", 450)],
)
def test_the_link_to_the_host_is_that_of_the_generation(name: str, gigabytes: int) -> None:
    (gpu,) = (gpu for gpu in catalog.load_gpu_types() if gpu.name == name)
    assert gpu.host_bandwidth_gb_per_second == gigabytes


class TestSlices:
    def test_a_slice_is_a_type_of_its_own(self) -> None:
        types = {gpu.name: gpu for gpu in catalog.load_gpu_types()}
        gpu, card = types["h100-sxm-80gb-mig-3g.40gb"], types["h100-sxm-80gb"]
        assert gpu.product_labels == ("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb",)
        assert gpu.usable_bytes == gpu.total_bytes == 40320 * MIB
        assert (gpu.interconnect, gpu.scale_up_gpus) == (Interconnect.PCIE, 1)
        assert gpu.memory_bandwidth_gb_per_second == card.memory_bandwidth_gb_per_second // 2
        assert (gpu.compute_capability, gpu.vendor) == (card.compute_capability, card.vendor)

    @pytest.mark.parametrize(
        ("profile", "share"),
        [("1g.10gb", "1/7"), ("1g.20gb", "1/4"), ("2g.20gb", "2/7"), ("3g.40gb", "1/2"), ("4g.40gb", "4/7")],
    )
    def test_a_slice_costs_what_nobody_else_can_have_of_the_card(self, profile: str, share: str) -> None:
        types = {gpu.name: gpu for gpu in catalog.load_gpu_types()}
        card, gpu = types["h100-sxm-80gb"], types[f"h100-sxm-80gb-mig-{profile}"]
        assert gpu.mig is not None
        assert gpu.price is not None
        assert card.price is not None
        assert gpu.mig.share == Fraction(share)
        assert abs(
            gpu.price.usd_per_hour
            - card.price.usd_per_hour * Decimal(Fraction(share).numerator) / Fraction(share).denominator
        ) <= Decimal("0.0001")
        assert gpu.price.source.endswith(f", {share} of h100-sxm-80gb")

    def test_no_set_of_slices_is_larger_than_its_card(self) -> None:
        types = {gpu.name: gpu for gpu in catalog.load_gpu_types()}
        slices = [gpu for gpu in types.values() if gpu.mig is not None]
        assert len(slices) >= 110
        for gpu in slices:
            assert gpu.mig is not None
            card, share = types[gpu.mig.card], gpu.mig.share
            assert gpu.total_bytes <= card.total_bytes * share, gpu.name
            assert (gpu.price is None) is (card.price is None)

    def test_a_slice_is_near_the_gigabytes_of_its_profile_and_never_above(self) -> None:
        for gpu in catalog.load_gpu_types():
            if gpu.mig is not None:
                told = int(re.fullmatch(r"\dg\.(\d+)gb", gpu.mig.profile)[1])  # type: ignore[index]
                assert 0.82 * told <= gpu.total_bytes / 1024**3 <= told, gpu.name

    def test_memory_nobody_printed_follows_the_stated_law(self) -> None:
        least = {1: 0.1135, 2: 0.2297, 4: 0.4629, 8: 0.973}
        for entry in catalog._document("gpus.json")["gpus"]:  # noqa: SLF001
            mig = entry.get("mig", {"profiles": {}})
            for profile, part in mig["profiles"].items():
                eighths = part["memory_slices"] * 8 // mig["memory_slices"]
                floor = int(entry["total_mib"] * least[eighths])
                measured = mig["from"] != "law"
                assert part["mib"] >= floor if measured else part["mib"] == floor, (entry["name"], profile)
                assert not measured or mig["from"] in entry["sources"]


def test_every_source_is_named() -> None:
    document = catalog._document("gpus.json")  # noqa: SLF001
    assert {key for entry in document["gpus"] for key in entry["sources"]} == set(document["sources"])
    assert all(entry["source"] for entry in catalog._document("models.json")["models"])  # noqa: SLF001


def test_the_h100_is_the_one_that_engines_see() -> None:
    gpu = next(gpu for gpu in catalog.load_gpu_types() if gpu.name == "h100-sxm-80gb")
    assert gpu.total_bytes == 81559 * MIB
    assert 79.1 < gpu.usable_bytes / 1024**3 < 79.2
    assert (gpu.compute_capability, gpu.interconnect, gpu.scale_up_gpus) == ((9, 0), Interconnect.NVLINK, 8)


def test_a_name_given_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    read = catalog._document  # noqa: SLF001
    gpus = read("gpus.json")["gpus"]
    monkeypatch.setattr(
        catalog, "_document", lambda name: {"gpus": [*gpus, gpus[0]]} if name == "gpus.json" else read(name)
    )
    with pytest.raises(ValueError, match="names a GPU type twice: h100-sxm-80gb"):
        catalog.load_gpu_types.__wrapped__()


class Name(str):
    """A text of which one can say whether something still holds it."""

    __slots__ = ("__weakref__",)


def test_names_that_the_catalogue_does_not_have_are_not_kept() -> None:
    """Tenants write them, and an operator runs for months."""
    name = Name("nobody/knows-this")
    held = weakref.ref(name)
    assert catalog.load_model_facts(name) is None
    assert catalog.other_checkpoints(name) == ()
    del name
    assert held() is None
