"""The name of a checkpoint's quantization method, as engines look it up."""

from __future__ import annotations

from typing import Any

from plimsoll.facts.models.config_json import quantization_method
from plimsoll.facts.models.fields import Fields
from tests.support.planning import model
from tests.support.tables import every_case


@every_case(
    ("section", "method"),
    [
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "MXFP4"}, "mxfp4"),
        ({"quant_method": "compressed_tensors"}, "compressed-tensors"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt"),
        ({"quant_method": "modelopt", "quant_algo": "mixed_precision"}, "modelopt_mixed"),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "MXFP8"}}, "modelopt_mxfp8"),
        ({"quant_method": ""}, None),
        ({"quant_method": 3}, None),
        ({"bits": 4}, None),
        (None, None),
        ("fp8", None),
    ],
)
def test_the_method_of_a_section(section: Any, method: str | None) -> None:
    assert quantization_method(Fields({"quantization_config": section})) == method
    assert quantization_method(Fields({"compression_config": section})) == method


def test_facts_have_the_method() -> None:
    assert model("openai/gpt-oss-20b").checkpoint.method == "mxfp4"
    assert model().checkpoint.method is None
