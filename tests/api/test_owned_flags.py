"""Flags that the operator decides are refused in every spelling that vLLM's own parser would take."""

from __future__ import annotations

from functools import cache

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.engines.vllm.flags.extra_arguments import OWNED_FLAGS
from plimsoll.engines.vllm.flags.table import table_for
from tests.support.tables import every_case
from tests.support.vllm_flags import owned_flag

OPTION_OF = {
    name: option.names[0].removeprefix("--").replace("-", "_")
    for name, option in table_for(EngineVersion(0, 32)).options.items()
}
DECIDED = {OPTION_OF[flag.name] for flag in OWNED_FLAGS if flag.name in OPTION_OF}


@cache
def meanings(word: str) -> set[str]:
    """The options that argparse may mean by a word: itself, or all that begin so."""
    if word in OPTION_OF:
        return {OPTION_OF[word]}
    return {option for name, option in OPTION_OF.items() if name.startswith(word) and name[:2] != word}


@cache
def spellings() -> list[str]:
    """Every word that can mean one option alone."""
    words = {name[:length] for name in OPTION_OF for length in range(2, len(name) + 1)}
    return sorted(word for word in words if word != "--" and len(meanings(word)) == 1)


def test_every_flag_of_the_table_is_one_of_the_engines() -> None:
    assert [flag.name for flag in OWNED_FLAGS if flag.name not in OPTION_OF] == []


def test_every_unambiguous_abbreviation_of_a_decided_option_is_refused() -> None:
    missed = [word for word in spellings() if meanings(word) <= DECIDED and owned_flag(word) is None]
    assert missed == []


def test_a_refused_spelling_means_a_decided_option_or_one_that_belongs_to_it() -> None:
    refused = {option for word in spellings() if owned_flag(word) for option in meanings(word)}
    kin = {option for option in refused if option.startswith(("data_parallel_", "grpc_", "offload_", "ssl_"))}
    # --ep means --eplb-config to the parser, and expert parallelism (-ep) to whoever writes it.
    assert refused - DECIDED - kin == {"cpu_offload_params", "quantization_config", "eplb_config"}


@every_case(
    ("argument", "name"),
    [
        ("--max-model-len", "--max-model-len"),
        ("--max_model_len=8192", "--max-model-len"),
        ("--max-model", "--max-model-len"),
        ("--MAX-MODEL-LEN", "--max-model-len"),
        ("-tp", "--tensor-parallel-size"),
        ("-tp=2", "--tensor-parallel-size"),
        ("-t", "--tensor-parallel-size"),
        ("--tensor-parallel", "--tensor-parallel-size"),
        ("-n4", "--nnodes"),
        ("-n", "--nnodes"),
        ("-q", "--quantization"),
        ("-qfp8", "--quantization"),
        ("-q=fp8", "--quantization"),
        ("-dpl", "--data-parallel-size"),
        ("-pp", "--pipeline-parallel-size"),
        ("-dcp", "--decode-context-parallel-size"),
        ("--no-enforce-eager", "--enforce-eager"),
        ("--kv-cache-dt", "--kv-cache-dtype"),
        ("--kv-cache-memory", "--kv-cache-memory-bytes"),
        ("--por", "--port"),
        ("--cpu-offload-gb=8", "--cpu-offload-gb"),
        ("--offload-group-size", "--offload-group-size"),
        ("--offload_prefetch_step=2", "--offload-group-size"),
        ("--enable-lora", "--enable-lora"),
        ("--no-enable-lora", "--enable-lora"),
        ("--max-loras", "--max-loras"),
        ("--max-lora-rank=64", "--max-lora-rank"),
        ("--language-model-only", "--language-model-only"),
        ("--no-lang", "--language-model-only"),
        ("--speculative-config", "--speculative-config"),
        ("--speculative-config.method", "--speculative-config"),
        ('-sc={"method":"ngram"}', "--speculative-config"),
        ("-sc.num_speculative_tokens=3", "--speculative-config"),
        ("-s", "--speculative-config"),
        ("--spec-method", "--spec-method"),
        ("--spec_model=org/draft", "--spec-model"),
        ("--spec-tok", "--spec-tokens"),
    ],
)
def test_a_spelling_is_refused_by_the_name_that_the_user_knows(argument: str, name: str) -> None:
    flag = owned_flag(argument)
    assert flag is not None
    assert flag.name == name


@every_case(
    "argument",
    [
        "--max-num-scheduled-tokens=4096",
        "--max-num-active-seqs=8",
        "--max-num-queued-reqs",
        "--model-impl",
        "--model-loader-extra-config",
        "--kv-cache-dtype-skip-layers",
        "--kv-cache-metrics",
        "--kv-transfer-config",
        "--lora-modules",
        "--max-cpu-loras",
        "--specialize-active-lora",
        "--enable-log-requests",
        "--enable-eplb",
        "--enable-prefix-caching",
        "--config-format",
        "--tokenizer-revision",
        "--hf-overrides",
        "--no-async-scheduling",
        "--disable-log-requests",
        "-O3",
        "-cc",
        "--seed",
        "--per-request-spec-decode-metrics",
    ],
)
def test_a_neighbour_is_the_users_own(argument: str) -> None:
    assert owned_flag(argument) is None


@every_case("argument", ["fp8", "8192", "/models/tp", "model", "-1", "", "tp"])
def test_a_value_is_nobodys_flag(argument: str) -> None:
    assert owned_flag(argument) is None


def test_every_refusal_says_what_to_use_instead() -> None:
    assert all(flag.instead for flag in OWNED_FLAGS)
