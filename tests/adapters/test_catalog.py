"""The catalogue that ships with the package holds what it promises."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.adapters import catalog
from plimsoll.domain.gpus import Interconnect, Vendor
from plimsoll.domain.model import FactsSource
from plimsoll.domain.precision import Precision
from plimsoll.domain.units import MIB
from plimsoll.facts.parameters import count_parameters

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
)


@pytest.mark.parametrize("name", WANTED)
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


def test_an_unknown_model_has_no_facts() -> None:
    assert catalog.load_model_facts("nobody/nothing") is None
    assert catalog.load_model_facts("META-LLAMA/LLAMA-3.1-8B-INSTRUCT") is None


def test_a_sibling_shares_the_shape_but_for_its_changes() -> None:
    plain = catalog.load_model_facts("Qwen/Qwen3-30B-A3B")
    fp8 = catalog.load_model_facts("Qwen/Qwen3-30B-A3B-FP8")
    assert plain is not None
    assert fp8 is not None
    assert (plain.checkpoint.precision, fp8.checkpoint.precision) == (Precision.BF16, Precision.FP8)
    assert (plain.experts, plain.attention) == (fp8.experts, fp8.attention)


def test_gpu_types_are_plausible() -> None:
    types = catalog.load_gpu_types()
    assert len(types) >= 35
    for gpu in types:
        assert 0.96 * gpu.total_bytes < gpu.usable_bytes < gpu.total_bytes, gpu.name
        assert gpu.scale_up_gpus >= 1
        assert gpu.product_labels
        assert (gpu.compute_capability is None) is (gpu.vendor is Vendor.AMD)
        assert (gpu.gfx is None) is (gpu.vendor is Vendor.NVIDIA)
        assert gpu.compute_capability is None or gpu.compute_capability >= (7, 5)
        assert gpu.price is None or (gpu.price.usd_per_hour > 0 and gpu.price.source.startswith("catalog: "))


def test_every_usable_memory_is_measured_or_follows_the_stated_law() -> None:
    for entry in catalog._document("gpus.json")["gpus"]:  # noqa: SLF001
        total = entry["total_mib"]
        law = total - 400 - -(-total * 6 // 1000)
        if entry["usable_from"] == "law":
            assert entry["usable_mib"] == law, entry["name"]
        else:
            assert entry["usable_mib"] >= law, entry["name"]


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
    document: dict[str, Any] = catalog._document("gpus.json")  # noqa: SLF001
    document["gpus"].append(document["gpus"][0])
    monkeypatch.setattr(catalog, "_document", lambda _name: document)
    with pytest.raises(ValueError, match="names a GPU type twice: h100-sxm-80gb"):
        catalog.load_gpu_types.__wrapped__()
