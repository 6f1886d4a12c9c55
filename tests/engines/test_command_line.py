"""Command lines of vLLM servers: which words are arguments, and that every spelling of an option is read alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import (
    CpuOffload,
    DraftMethod,
    EngineVersion,
    LoraSlots,
    MediaUse,
    WeightStreaming,
)
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.starts import ImageRelease, NamedDrafting, StartCommand, StartOptions, unresolved
from plimsoll.engines.vllm.flags.table import table_for, table_with_older_flags
from plimsoll.engines.vllm.releases.older_options import OLDER_OPTIONS
from plimsoll.engines.vllm.settings import KV_DTYPES
from plimsoll.engines.vllm.starts.command_line import is_server_image, read_command, release_of_image, server_arguments
from plimsoll.engines.vllm.starts.start_log import read_start_log
from plimsoll.engines.vllm.starts.start_options import READ
from tests.support.start_logs import figures_0_11_0, log_0_11_0
from tests.support.tables import examples

NEWEST = EngineVersion(0, 32)
OLDER = EngineVersion(0, 29)


def read(*arguments: str, release: EngineVersion = NEWEST, **environment: str) -> StartCommand:
    return read_command(["org/model", *arguments], environment, "here", release)


def options(*arguments: str, release: EngineVersion = NEWEST) -> StartOptions:
    return read(*arguments, release=release).options


def refused(*arguments: str, release: EngineVersion = NEWEST) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        read(*arguments, release=release)
    return caught.value


SERVERS: dict[str, list[str]] = {
    "the program": ["vllm", "serve", "m", "-x"],
    "its path": ["/usr/local/bin/vllm", "serve", "m", "-x"],
    "behind others": ["env", "A=1", "numactl", "-N", "0", "vllm", "serve", "m", "-x"],
    "its module": ["python3", "-m", "vllm.entrypoints.openai.api_server", "m", "-x"],
    "the module of the program": ["python", "-m", "vllm.entrypoints.cli.main", "serve", "m", "-x"],
    "its file": ["python", "/app/vllm/entrypoints/openai/api_server.py", "m", "-x"],
}


@pytest.mark.parametrize("case", SERVERS)
def test_the_arguments_of_a_server_are_found(case: str) -> None:
    assert server_arguments(SERVERS[case]) == ("m", "-x")


@pytest.mark.parametrize(
    "words", [[], ["vllm"], ["vllm", "bench", "serve"], ["serve", "vllm"], ["python", "-m", "vllm"]]
)
def test_other_commands_start_no_server(words: list[str]) -> None:
    assert server_arguments(words) is None


@pytest.mark.parametrize(
    ("image", "is_server", "release"),
    [
        ("vllm/vllm-openai:v0.25.1", True, ImageRelease(EngineVersion(0, 25, 1))),
        ("registry.example:5000/copies/vllm-openai:0.30", True, ImageRelease(EngineVersion(0, 30))),
        ("vllm/vllm-openai:v0.31.0-cu129@sha256:00", True, ImageRelease(EngineVersion(0, 31))),
        ("vllm/vllm-openai:v0.31.0rc1", True, ImageRelease(EngineVersion(0, 31), is_plain=False)),
        ("rocm/vllm:rocm6.4.1_vllm_0.10.0_20250812", True, ImageRelease(EngineVersion(0, 10))),
        ("vllm/vllm-openai:latest", True, None),
        ("vllm/vllm-openai", True, None),
        ("nvcr.io/nvidia/vllm:25.09-py3", True, None),
        ("library/nginx:1.27.0", False, None),
        ("vllm/other:v0.25.1", False, None),
    ],
)
def test_the_image_says_the_release_where_its_tag_is_one(
    image: str,
    is_server: bool,  # noqa: FBT001 - a row of a table
    release: ImageRelease | None,
) -> None:
    assert (is_server_image(image), release_of_image(image)) == (is_server, release)


VALUES: dict[str, list[Any]] = {
    "--dtype": ["bfloat16", "half"],
    "--quantization": ["fp8", "bitsandbytes"],
    "--kv-cache-dtype": sorted(KV_DTYPES.values()),
    "--max-model-len": [4096],
    "--max-num-seqs": [1, 96],
    "--max-num-batched-tokens": [8192],
    "--gpu-memory-utilization": [0.5, 0.925],
    "--enforce-eager": [True],
    "--language-model-only": [True],
    "--mm-encoder-tp-mode": ["data"],
    "--limit-mm-per-prompt": [{"image": 2}, {"image": 1, "video": 0}],
    "--cpu-offload-gb": [4],
    "--enable-lora": [True],
    "--max-loras": [3],
    "--max-lora-rank": [64],
    "--speculative-config": [{"method": "ngram", "num_speculative_tokens": 4}],
    "--tensor-parallel-size": [2, 8],
    "--pipeline-parallel-size": [2],
    "--data-parallel-size": [4],
    "--decode-context-parallel-size": [2],
    "--enable-expert-parallel": [True],
    "--runner": ["pooling"],
    "--block-size": [32],
    "--num-gpu-blocks-override": [900],
    "--max-cudagraph-capture-size": [64],
    "--enable-prefix-caching": [False],
    "--seed": [7],
}
CHOSEN = st.fixed_dictionaries({}, optional={flag: st.sampled_from(rows) for flag, rows in VALUES.items()})
"""Options with a place in the memory law, one that no law covers, and two without influence."""


def spelt(flag: str, value: Any, draw: Random) -> list[str]:
    """One option in one of its spellings."""
    names = [flag]
    if value is False:
        names = [f"--no-{flag[2:]}"]
    elif flag in table_for(NEWEST).options:
        short = [name for name in table_for(NEWEST).options[flag].names if not name.startswith("--")]
        names += short
    name = draw.choice(names)
    if name.startswith("--") and draw.random() < 0.5:
        name = f"--{name[2:].replace('-', draw.choice('-_'))}"
    if isinstance(value, bool):
        return [name]
    if isinstance(value, dict):
        if draw.random() < 0.5:
            return [word for key, part in value.items() for word in draw_pair(f"{name}.{key}", str(part), draw)]
        return draw_pair(name, json.dumps(value), draw)
    return draw_pair(name, str(value), draw)


def draw_pair(name: str, text: str, draw: Random) -> list[str]:
    return [f"{name}={text}"] if draw.random() < 0.5 else [name, text]


def plain(chosen: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for flag, value in chosen.items():
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            words.append(f"{flag}={json.dumps(value) if isinstance(value, dict) else value}")
    return words


@settings(max_examples=examples(300))
@given(CHOSEN, st.integers(0, 10**6))
def test_every_spelling_and_order_gives_the_same_options(chosen: dict[str, Any], seed: int) -> None:
    draw = Random(seed)  # noqa: S311 - a draw that can be repeated
    parts = [spelt(flag, value, draw) for flag, value in chosen.items()]
    place = draw.randrange(len(parts) + 1)
    draw.shuffle(parts)
    words = [word for part in [*parts[:place], ["org/model"], *parts[place:]] for word in part]
    found, wanted = read_command(words, {}, "here", NEWEST), read(*plain(chosen))
    assert (found.options, found.split, found.model) == (wanted.options, wanted.split, "org/model")
    assert sorted(found.harmless) == sorted(wanted.harmless)
    assert found.notes == ()


@settings(max_examples=examples(150))
@given(CHOSEN)
def test_a_log_that_prints_these_arguments_gives_the_same_options(chosen: dict[str, Any]) -> None:
    """One reader for both: a log prints the arguments as Python's values."""
    arguments = {flag[2:].replace("-", "_"): value for flag, value in chosen.items()}
    log = read_start_log(
        log_0_11_0(*figures_0_11_0(10), arguments=arguments, kv_cache_dtype=None, dtype=None).splitlines()
    )
    assert log is not None
    wanted = read(*plain(chosen))
    named = {"max_model_len", "max_num_seqs", "max_num_batched_tokens", "precision"}
    for name in set(StartOptions.__dataclass_fields__) - named:
        assert getattr(log.options, name) == getattr(wanted.options, name), name


def test_every_option_with_a_place_in_the_law_is_read() -> None:
    found = read(
        *("--dtype=half", "--kv-cache-dtype=turboquant_k8v4", "--max-model-len=32k", "--max-num-seqs=48"),
        *("--max-num-batched-tokens=4K", "--gpu-memory-utilization=.9", "--enforce-eager", "-tp=4", "-pp=2", "-dp=2"),
        *("-ep", "-dcp=2", "--enable-lora", "--max-loras=2", "--max-lora-rank=32", "--mm-encoder-tp-mode=data"),
        *("--limit-mm-per-prompt", '{"image": {"count": 3}, "video": 1}', "--runner", "pooling"),
        *("--spec-method=draft_model", "--spec-model=org/draft", "--spec-tokens=5", "-q=fp8", "--revision=main"),
    )
    assert found.options == StartOptions(
        precision=Precision.FP16,
        quantizes_to=Precision.FP8,
        quantization="fp8",
        kv_precision=KvPrecision.TURBO_K8V4,
        max_model_len=32_000,
        max_num_seqs=48,
        max_num_batched_tokens=4096,
        utilization=0.9,
        enforce_eager=True,
        media=MediaUse(copies_encoder=True, images=3, videos=1),
        lora=LoraSlots(2, 32),
        drafting=NamedDrafting(DraftMethod.DRAFT_MODEL, 5, "org/draft"),
        pools=True,
        unfollowed=("--limit-mm-per-prompt={'image': {'count': 3}, 'video': 1}",),
    )
    assert found.split == Split(4, 2, 2, expert_parallel=True, context_parallel=2)
    assert (found.revision, found.harmless, found.notes) == ("main", (), ())


@pytest.mark.parametrize(
    ("arguments", "residency"),
    [
        (("--cpu-offload-gb", "2.5"), CpuOffload(5 * GIB // 2)),
        (("--offload-group-size=8", "--offload-num-in-group=2", "--offload-prefetch-step=3"), WeightStreaming(8, 2, 3)),
        (("--offload-group-size=8",), WeightStreaming(8, 1, 1)),
        (("--offload-group-size=2", "--offload-num-in-group=2"), WeightStreaming(2, 2, 1)),
        (("--cpu-offload-gb=0",), None),
    ],
)
def test_weights_in_host_memory_are_read(arguments: Sequence[str], residency: object) -> None:
    assert options(*arguments).residency == residency


@pytest.mark.parametrize(
    ("value", "media"),
    [
        ('{"image": 0, "video": 0}', MediaUse(text_only=True)),
        ('{"image": 4}', MediaUse(images=4)),
        ('{"video": 0}', MediaUse(videos=0)),
    ],
)
def test_limits_of_media_are_read(value: str, media: MediaUse) -> None:
    assert options("--limit-mm-per-prompt", value).media == media
    assert options("--limit-mm-per-prompt", value).unfollowed == ()


def test_keys_are_merged_and_count_before_the_same_option_as_json() -> None:
    keys = ("--speculative-config.method=ngram", "--speculative-config.num_speculative_tokens", "3")
    whole = ("--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}')
    for arguments in ((*keys, *whole), (*whole, *keys)):
        assert options(*arguments).drafting == NamedDrafting(DraftMethod.NGRAM, 3)
    assert options(*whole).drafting == NamedDrafting(DraftMethod.MTP, 1)
    nested = read("--compilation-config.a.b", "1", "--compilation-config.a.c=x").options.unfollowed
    assert nested == ("--compilation-config={'a': {'b': 1, 'c': 'x'}}",)


def test_the_method_of_a_draft_without_one_follows_from_its_name() -> None:
    def method(name: str) -> DraftMethod | None:
        found = options("--speculative-config", json.dumps({"model": name, "num_speculative_tokens": 2})).drafting
        return None if found is None else found.method

    assert [method(name) for name in ("org/eagle3-head", "org/EAGLE-head", "org/small", "[ngram]")] == [
        DraftMethod.EAGLE3,
        DraftMethod.EAGLE,
        DraftMethod.DRAFT_MODEL,
        DraftMethod.NGRAM,
    ]


DOUBTS: dict[str, list[str]] = {
    "a backend": ["--attention-backend=FLASHINFER"],
    "chunks": ["--no-enable-chunked-prefill"],
    "a format of another kind": ["--kv-cache-dtype=ultraquant_4bit"],
    "drafts of another kind": ["--speculative-config", '{"method": "suffix"}'],
    "sounds": ["--limit-mm-per-prompt", '{"audio": 1}'],
    "a file": ["--config=/etc/vllm.yaml"],
    "a level": ["-O3"],
    "a flag of nobody's": ["--max-modle-len=8"],
}


def test_a_size_of_the_cache_is_read_in_the_engines_units() -> None:
    for text, size in (("8G", 2**33), ("8g", 8 * 10**9), ("8589934592", 2**33)):
        found = options(f"--kv-cache-memory-bytes={text}")
        assert (found.cache_bytes, found.unfollowed) == (size, ())
    assert options().cache_bytes is None


def test_blocks_of_the_cache_are_read() -> None:
    found = options("--block-size=32", "--num-gpu-blocks-override=900")
    assert (found.block_tokens, found.cache_blocks, found.unfollowed) == (32, 900, ())
    assert (options().block_tokens, options().cache_blocks) == (None, None)


@pytest.mark.parametrize("case", DOUBTS)
def test_what_no_law_covers_is_named(case: str) -> None:
    assert len(options(*DOUBTS[case]).unfollowed) == 1, options(*DOUBTS[case])


@pytest.mark.parametrize(
    "argument",
    [
        "--attention-backend=auto",
        "--load-format=safetensors",
        "--no-enable-dbo",
        "--enable-chunked-prefill",
        "--seed=1",
    ],
)
def test_what_leaves_the_engines_own_choice_is_no_doubt(argument: str) -> None:
    assert options(argument).unfollowed == ()
    assert read(argument).harmless == (argument.replace("--no-", "--").partition("=")[0],)


def test_variables_that_change_the_memory_are_named_and_others_are_not() -> None:
    found = read(VLLM_MLA_DISABLE="1", VLLM_USE_V1="1", HF_HOME="/x", PATH="/bin").options
    assert (found.unfollowed, found.model_runner) == (("VLLM_MLA_DISABLE=1",), None)


def test_the_variable_of_the_model_runner_is_obeyed() -> None:
    assert [read(VLLM_USE_V2_MODEL_RUNNER=value).options.model_runner for value in ("0", "1")] == [1, 2]
    odd = read(VLLM_USE_V2_MODEL_RUNNER="maybe").options
    assert (odd.model_runner, odd.unfollowed) == (None, ("VLLM_USE_V2_MODEL_RUNNER=maybe",))


def test_an_unknown_flag_gets_its_neighbour_and_takes_no_model_with_it() -> None:
    found = read_command(["--enable-prefx-caching", "--tomorrow", "x", "org/model"], {}, "here", NEWEST)
    assert found.model == "org/model"
    assert found.notes == (
        "--enable-prefx-caching: vLLM 0.32.0 has no such flag: the nearest is --enable-prefix-caching.",
        "--tomorrow: vLLM 0.32.0 has no such flag: correct its name, or remove it.",
    )
    assert read_command(["--tomorrow", "org/model"], {}, "here", NEWEST).model == "org/model"


def test_flags_of_older_releases_are_known_there_and_nowhere_else() -> None:
    assert len(options("--rope-scaling={}", "--cuda-graph-sizes", "8", release=OLDER).unfollowed) == 2
    older = read("--num-scheduler-steps=8", "--swap-space", "4", release=OLDER)
    assert (older.notes, older.options.unfollowed) == ((), ())
    assert older.harmless == ("--num-scheduler-steps", "--swap-space")
    assert len(read("--num-scheduler-steps=8", "--swap-space", "4").notes) == 2
    assert options("--task=embed", release=OLDER).pools
    assert not options("--task=generate", release=OLDER).pools


def test_rows_of_older_flags_have_the_form_of_the_recorded_ones() -> None:
    table = table_with_older_flags()
    assert len(table.options) > len(table_for(NEWEST).options)
    for row in OLDER_OPTIONS.strip().splitlines():
        *names, takes = row.split()
        assert all(name in table.options for name in names)
        assert takes.rstrip("+?") in ("switch", "text", "whole", "number"), row


REFUSED: dict[str, tuple[list[str], str, str]] = {
    "a word for a number": (["--max-num-seqs", "many"], "here: --max-num-seqs", "whole number"),
    "no value": (["--max-model-len"], "here: --max-model-len", "takes a value"),
    "no value of a harmless flag": (["--port"], "here: --port", "takes a value"),
    "a choice": (["--kv-cache-dtype=fp9"], "here: --kv-cache-dtype", "the nearest is fp8"),
    "a share in percent": (["--gpu-memory-utilization=92"], "here: --gpu-memory-utilization", "e.g. 0.92"),
    "no share": (["--gpu-memory-utilization=nan"], "here: --gpu-memory-utilization", "e.g. 0.92"),
    "no GPU": (["-tp=0"], "here: --tensor-parallel-size", "from 1 to 64"),
    "many GPUs": (["-tp=4096"], "here: --tensor-parallel-size", "from 1 to 64"),
    "fewer than nothing": (["--cpu-offload-gb=-1"], "here: --cpu-offload-gb", "0 or more"),
    "a step below the sequences": (
        ["--max-num-batched-tokens=64", "--max-num-seqs=65"],
        "batched-tokens",
        "at least 65",
    ),
    "two models": (["other/model"], "here", "No flag takes this value"),
    "a value of a variable": (["-tp", unresolved("$TP")], "here: --tensor-parallel-size", "The value of $TP is not"),
    "arguments of a variable": ([unresolved("$MORE")], "here", "The value of $MORE is not known"),
    "help": (["--help"], "here: -h", "prints its help"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_engine_takes_is_refused_with_place_and_fix(case: str) -> None:
    arguments, field, fix = REFUSED[case]
    error = refused(*arguments)
    assert field in error.field
    assert fix in error.fix
    assert "\ue000" not in str(error)


def test_a_format_of_the_cache_is_refused_where_the_release_lacks_it() -> None:
    assert "use 0.24.0 or newer" in refused("--kv-cache-dtype=turboquant_k8v4", release=EngineVersion(0, 23)).fix
    assert options("--kv-cache-dtype=turboquant_k8v4", release=EngineVersion(0, 24)).kv_precision is not None


def test_limits_of_media_had_another_form() -> None:
    assert options("--limit-mm-per-prompt", "image=2,video=0", release=EngineVersion(0, 8, 5)).media == MediaUse(
        images=2, videos=0
    )
    assert "takes JSON" in refused("--limit-mm-per-prompt", "image=2").fix


def test_a_choice_of_another_release_is_a_note() -> None:
    found = read("--dtype=bfloat17", "--scheduling-policy=lifo", release=OLDER)
    assert [note.partition(":")[0] for note in found.notes] == ["--dtype=bfloat17", "--scheduling-policy=lifo"]
    assert all("vLLM 0.32.0" in note for note in found.notes)


def test_a_value_that_nobody_knows_is_no_harm_where_it_changes_nothing() -> None:
    assert read("--port", unresolved("$PORT"), "--served-model-name", unresolved("$(hostname)")).notes == ()


def test_a_context_that_the_engine_chooses_is_said() -> None:
    for value in ("auto", "-1"):
        found = read("--max-model-len", value)
        assert (found.fits_context, found.options.max_model_len) == (True, None)
    assert not read("--max-model-len=4096").fits_context


def test_parts_of_a_replica_in_other_containers_are_seen() -> None:
    for spread in ("--nnodes=2", "--headless", "--distributed-executor-backend=ray", "--data-parallel-size-local=2"):
        assert read(spread, "-dp=4").spread, spread
    assert not read("-dp=4", "-tp=2", "--data-parallel-size-local=4").spread


def test_every_name_that_is_read_is_a_flag_of_some_release() -> None:
    known = {name.lstrip("-").replace("-", "_") for name in table_with_older_flags().options}
    assert READ - known == {"model_tag"}


names = st.sampled_from(sorted(table_for(NEWEST).options))
values = st.sampled_from(
    ["1", "-1", "x", "{}", "[1]", "null", "--", "=", "a b", "None", unresolved("$X"), "1e9", "9" * 40]
)
words = names | values | st.text(max_size=6) | st.builds("{}={}".format, names, values)
dotted = st.builds("{}.{}={}".format, names, st.sampled_from(["a", "method", "model", ""]), values)


@settings(max_examples=examples(600))
@given(st.lists(words | dotted, max_size=6), st.sampled_from([NEWEST, OLDER, EngineVersion(0, 9), EngineVersion(9, 9)]))
def test_any_line_is_read_or_refused_in_words(arguments: list[str], release: EngineVersion) -> None:
    with suppress(InvalidInput):
        found = read_command(arguments, {}, "here", release)
        assert 1 <= found.split.tensor_parallel <= 64
