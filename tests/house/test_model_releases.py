"""The script that makes the table of releases from their sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import model_releases
from scripts.model_releases import METHODS, REGISTRY, classes_of, methods_of, releases_in, text_of

REGISTRY_SOURCE = """
import os
_TEXT_GENERATION_MODELS = {"AForCausalLM": ("a", "AForCausalLM"), %s}
_MULTIMODAL_MODELS: dict = {"BForConditionalGeneration": ("b", "B")}
_SPECULATIVE_DECODING_MODELS = {"EagleAForCausalLM": ("e", "E")}
_TRANSFORMERS_SUPPORTED_MODELS = {"DForCausalLM": ("transformers", "TransformersForCausalLM")}
_TRANSFORMERS_BACKEND_MODELS = {"TransformersForCausalLM": ("transformers", "TransformersForCausalLM")}
_VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_MULTIMODAL_MODELS}
_PREVIOUSLY_SUPPORTED_MODELS = {"GoneForCausalLM": "0.9.2"}
_OOT_SUPPORTED_MODELS = {"PluginForCausalLM": "address"}
"""
ALWAYS = {"AForCausalLM", "BForConditionalGeneration", "DForCausalLM"}


def lay(folder: Path, release: str, registry: str, methods: str) -> None:
    for path, text in ((REGISTRY, registry), (METHODS, methods)):
        (folder / release / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / release / path).write_text(text)


def test_classes_that_only_draft_are_gone_or_come_with_a_plugin_are_not_served() -> None:
    assert classes_of(REGISTRY_SOURCE % "") == ALWAYS
    assert classes_of(REGISTRY_SOURCE % '"C": ("c", "C")') == {*ALWAYS, "C"}


def test_methods_are_a_list_or_the_members_of_a_type() -> None:
    assert methods_of('QUANTIZATION_METHODS: list[str] = ["awq", "fp8"]') == {"awq", "fp8"}
    typed = 'QuantizationMethods = Literal["awq"]\nQUANTIZATION_METHODS = list(get_args(QuantizationMethods))'
    assert methods_of(typed) == {"awq"}
    with pytest.raises(ValueError, match="written in another way"):
        methods_of("QUANTIZATION_METHODS = load()")


def test_the_text_has_what_each_release_adds_and_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, "0.9.0", REGISTRY_SOURCE % '"C": ("c", "C")', 'QUANTIZATION_METHODS = ["awq"]')
    lay(tmp_path, "0.10.0", REGISTRY_SOURCE % "", 'QUANTIZATION_METHODS = ["awq", "mxfp4"]')
    lay(tmp_path, "0.9.0.post1", "", "")
    text = text_of(releases_in(tmp_path))
    assert 'RELEASES = """\\\n0.9.0 0.10.0\n"""' in text
    assert "0.9.0: AForCausalLM BForConditionalGeneration C DForCausalLM\n" in text
    assert 'REMOVED_CLASSES = """\\\n0.10.0: C\n"""' in text
    assert 'ADDED_METHODS = """\\\n0.9.0: awq\n0.10.0: mxfp4\n"""' in text
    monkeypatch.setattr(model_releases, "TABLE", tmp_path / "table.py")
    (tmp_path / "table.py").write_text("")
    assert model_releases.main([str(tmp_path), "--check"]) == 1
    assert model_releases.main([str(tmp_path)]) == 0
    assert model_releases.main([str(tmp_path), "--check"]) == 0


def test_the_carried_table_has_the_form_that_the_script_writes() -> None:
    lines = model_releases.TABLE.read_text().splitlines()
    assert "\n".join(lines).startswith(model_releases.HEAD)
    assert max(len(line) for line in lines) <= 120
