"""Commands with which vLLM does not start for their model, each with a neighbour that starts.

Sources: ``_verify_quantization``, ``_verify_with_expert_parallelism`` and ``_FLOAT16_NOT_SUPPORTED_MODELS`` of
``config/model.py``, ``get_supported_act_dtypes`` of the quantization methods, and ``config/lora.py``, 0.32 and 0.33.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import FactsSource
from plimsoll.engines.vllm.checkpoint_files import unconfirmed
from plimsoll.engines.vllm.refusals import misfit
from plimsoll.engines.vllm.starts.command_line import read_command
from tests.support.planning import model
from tests.support.tables import every_case

RELEASE = EngineVersion(0, 32)
DENSE, EXPERTS, AWQ, MXFP4, FP8, GEMMA = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen2.5-7B-Instruct-AWQ",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3-8B-FP8",
    "google/gemma-3-4b-it",
)

REFUSED: dict[str, tuple[str, str, str]] = {
    "experts of a model without any": (DENSE, "--enable-expert-parallel", "--enable-expert-parallel"),
    "a checkpoint read as another": (AWQ, "--quantization=gptq", "--quantization"),
    "a quantized checkpoint quantized anew": (AWQ, "--quantization=fp8", "--quantization"),
    "an overflow": (GEMMA, "--dtype=float16", "--dtype"),
    "kernels of bfloat16 alone": (MXFP4, "--dtype=half", "--dtype"),
    "kernels of 16 bits": (FP8, "--dtype=float32", "--dtype"),
    "weights made of 8 bits": (DENSE, "--quantization=fp8 --dtype=float32", "--dtype"),
    "a cache of another format": (FP8, "--kv-cache-dtype=fp8_e5m2", "--kv-cache-dtype"),
    "a checkpoint that is not quantized": (DENSE, "--quantization=awq", "--quantization"),
    "another method for 16 bits": (DENSE, "-q gptq_marlin", "--quantization"),
    "a method that has no file of its own": (DENSE, "--quantization=compressed-tensors", "--quantization"),
    "fewer adapters than the GPU has": (DENSE, "--enable-lora --max-loras=8 --max-cpu-loras=4", "--max-cpu-loras"),
    "no room for an adapter": (DENSE, "--max-cpu-loras=0", "--max-cpu-loras"),
    "adapters that nothing permits": (DENSE, "--lora-modules a=/x", "--lora-modules"),
    "more shares of a context than ranks": (
        DENSE,
        "--decode-context-parallel-size=2",
        "--decode-context-parallel-size",
    ),
    "blocks that no kernel reads": (DENSE, "--block-size=20", "--block-size"),
}
TAKEN: dict[str, tuple[str, str]] = {
    "experts": (EXPERTS, "--enable-expert-parallel"),
    "the same method": (AWQ, "--quantization=awq"),
    "the same method under its later name": (AWQ, "--quantization=awq_marlin"),
    "a method for several kinds": (AWQ, "--quantization=moe_wna16"),
    "a method that is not known": (AWQ, "--quantization=own"),
    "float16 where it does not overflow": (DENSE, "--dtype=float16"),
    "bfloat16 where float16 overflows": (GEMMA, "--dtype=bfloat16"),
    "the type of the kernels": (MXFP4, "--dtype=bfloat16"),
    "either type": (FP8, "--dtype=float16"),
    "32 bits of a plain checkpoint": (DENSE, "--dtype=float32"),
    "numbers that are made while loading": (DENSE, "--quantization=mxfp8"),
    "8 bits of a plain checkpoint": (DENSE, "--quantization=fp8 --dtype=float16"),
    "another format of a plain checkpoint": (DENSE, "--kv-cache-dtype=fp8_e5m2"),
    "the usual format": (FP8, "--kv-cache-dtype=fp8"),
    "as many adapters as the GPU has": (DENSE, "--enable-lora --max-loras=8 --max-cpu-loras=8"),
    "an adapter": (DENSE, "--enable-lora --lora-modules a=/x"),
    "a share of a context on each rank": (DENSE, "--tensor-parallel-size=4 --decode-context-parallel-size=2"),
    "blocks of two kernels": (DENSE, "--block-size=32"),
}


@every_case("case", REFUSED)
def test_a_flag_that_does_not_fit_the_model_is_named(case: str) -> None:
    name, words, flag = REFUSED[case]
    found = misfit(model(name), read_command(words.split(), {}, "here", RELEASE), RELEASE)
    assert found is not None
    assert found.flag == flag
    assert found.fix.endswith(".")


@every_case("case", TAKEN)
def test_its_neighbour_is_let_through(case: str) -> None:
    name, words = TAKEN[case]
    assert misfit(model(name), read_command(words.split(), {}, "here", RELEASE), RELEASE) is None


WITH_FILES: dict[str, tuple[str, str]] = {
    "Mistral's configuration": ("--config-format=mistral", "params.json"),
    "Mistral's weights": ("--load-format=mistral", "consolidated-00001-of-00002.safetensors"),
    "Mistral's tokenizer": ("--tokenizer-mode=mistral", "tekken.json"),
    "Mistral's earlier tokenizer": ("--tokenizer-mode=mistral", "tokenizer.model.v3"),
    "a method that describes itself": ("--quantization=awq", "quant_config.json"),
    "an earlier method that does": ("--quantization=gptq", "quantize_config.json"),
    "ModelOpt's": ("--quantization=modelopt", "hf_quant_config.json"),
}
"""A flag, and a file with which the engine starts."""


@every_case("case", WITH_FILES)
def test_a_flag_needs_its_files(case: str) -> None:
    """Without them the engine ends; where nothing lists the files, that is a doubt and no more."""
    words, name = WITH_FILES[case]
    command = read_command(words.split(), {}, "here", RELEASE)
    plain = replace(model(DENSE), source=FactsSource.HUB)
    usual = frozenset({"config.json", "model-00001-of-00002.safetensors", "tokenizer.json"})
    without, with_it, unknown = (replace(plain, files=files) for files in (usual, usual | {name}, None))
    refused = misfit(without, command, RELEASE)
    assert refused is not None
    assert refused.flag == words.partition("=")[0]
    assert "leave it out" in refused.fix
    assert misfit(with_it, command, RELEASE) is None
    assert misfit(unknown, command, RELEASE) is None
    assert unconfirmed(without, command) == unconfirmed(with_it, command) == ()
    (doubt,) = unconfirmed(unknown, command)
    assert doubt.startswith(words.replace("=", " "))


def test_a_tokenizer_of_another_repository_has_its_own_files() -> None:
    command = read_command(["--tokenizer-mode=mistral", "--tokenizer=org/other"], {}, "here", RELEASE)
    assert misfit(replace(model(DENSE), files=frozenset({"config.json"})), command, RELEASE) is None


@pytest.mark.parametrize(
    ("architecture", "first", "last"),
    [
        ("Gemma2ForCausalLM", "0.9.1", None),
        ("Gemma3ForConditionalGeneration", "0.9.1", None),
        ("Gemma3ForCausalLM", "0.10.2", None),
        ("Gemma3TextModel", "0.10.2", None),
        ("Glm4ForCausalLM", "0.9.1", None),
        ("Plamo2ForCausalLM", "0.9.1", "0.26.0"),
    ],
)
def test_float16_is_refused_by_the_releases_that_do(architecture: str, first: str, last: str | None) -> None:
    """Read in the wheels of 0.8.5 to 0.33.0."""
    facts = replace(model(DENSE), architecture=architecture)
    releases = [
        EngineVersion.of(each) for each in ("0.8.5", "0.9.0", "0.9.1", "0.10.1", "0.10.2", "0.26.0", "0.27.0", "0.33.0")
    ]
    refusing = [
        str(each)
        for each in releases
        if misfit(facts, read_command(["--dtype=half"], {}, "here", each), each) is not None
    ]
    expected = [
        str(each)
        for each in releases
        if EngineVersion.of(first) <= each and (last is None or each <= EngineVersion.of(last))
    ]
    assert refusing == expected


@pytest.mark.parametrize(
    ("words", "flag", "fixed"),
    [
        (
            "--offload-group-size=4 --offload-num-in-group=5",
            "--offload-num-in-group",
            "--offload-group-size=4 --offload-num-in-group=4",
        ),
        ("--block-size=0", "--block-size", "--block-size=16"),
        ("--num-gpu-blocks-override=0", "--num-gpu-blocks-override", "--num-gpu-blocks-override=1"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(words: str, flag: str, fixed: str) -> None:
    with pytest.raises(InvalidInput, match=f"here: {flag}"):
        read_command(words.split(), {}, "here", RELEASE)
    assert read_command(fixed.split(), {}, "here", RELEASE).options.unfollowed == ()


def test_what_changes_a_draft_is_a_doubt_unless_it_is_the_models_own_degree() -> None:
    def doubts(*words: str) -> tuple[str, ...]:
        return read_command(
            ["--spec-method=draft_model", "--spec-tokens=2", "--spec-model=org/draft", *words], {}, "here", RELEASE
        ).options.unfollowed

    def of_json(more: str, *words: str) -> tuple[str, ...]:
        text = f'{{"method": "draft_model", "model": "org/draft", "num_speculative_tokens": 2{more}}}'
        return read_command(["--speculative-config", text, *words], {}, "here", RELEASE).options.unfollowed

    assert doubts() == of_json("") == of_json(', "revision": "main"') == ()
    assert of_json(', "draft_tensor_parallel_size": 1', "-tp=2") == (
        "--speculative-config.draft_tensor_parallel_size=1",
    )
    assert of_json(', "draft_tensor_parallel_size": 2', "-tp=2") == ()
    assert of_json(', "quantization": "fp8"') == ("--speculative-config.quantization='fp8'",)
