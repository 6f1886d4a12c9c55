"""Start-up logs of vLLM, 0.8 to 0.32: which values are read, and that no content makes the reading slow."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import CpuOffload, DraftMethod, EngineVersion, LoraSlots, MediaUse
from plimsoll.domain.engines.failures import StartFailure
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.start_fields import fields_of, integer_in, number_in, text_in
from plimsoll.engines.start_lines import LONGEST_LINE, MOST_CHARACTERS, MOST_LINES
from plimsoll.engines.starts import StartLog
from plimsoll.engines.vllm.releases.options import default_sequences, default_step, default_utilization
from plimsoll.engines.vllm.starts.start_log import last_start, read_start_log
from tests.support.planning import gpu
from tests.support.start_logs import (
    MODEL,
    NOTHING_LEFT,
    OUT_OF_MEMORY,
    TOO_SMALL_0_10,
    config_line,
    figures_0_11_0,
    log_0_8_5,
    log_0_11_0,
    log_0_32_0,
    logo,
)
from tests.support.tables import every_case
from tests.support.work import measured_effort

MOST_EFFORT = 300.0
"""Ten times the effort that the longest of the logs below takes: bounds on lines and on their length keep it so."""


def read(text: str) -> StartLog:
    found = read_start_log(text.splitlines())
    assert found is not None
    return found


def gib(size_bytes: int | None) -> float | None:
    return None if size_bytes is None else round(size_bytes / GIB, 2)


def test_0_8_prints_all_arguments_and_gives_the_cache_in_tokens() -> None:
    log = read(log_0_8_5())
    assert (log.version, log.model, log.served, log.complaint) == (EngineVersion(0, 8, 5), MODEL, True, "")
    options, figures = log.options, log.figures
    assert (options.max_model_len, options.max_num_seqs, options.max_num_batched_tokens) == (8192, 128, 4096)
    assert (options.utilization, options.unfollowed, options.precision) == (0.85, (), Precision.BF16)
    assert (figures.kv_bytes, figures.kv_tokens, figures.concurrency) == (None, 370_000, 45.17)
    assert (gib(figures.weights_bytes), gib(figures.graphs_bytes)) == (15.27, 0.52)


def test_0_11_gives_the_bytes_of_the_cache() -> None:
    log = read(log_0_11_0(*figures_0_11_0(53.0)))
    assert (log.build, log.split, log.options.max_num_seqs) == ("0.11.0", Split(1), 64)
    assert (gib(log.figures.kv_bytes), log.figures.kv_tokens) == (53.0, 385_904)
    assert log.options.utilization is None, "it prints none, so its own default counts"
    assert log.options.unfollowed == ()


def test_of_several_ranks_the_fullest_weights_and_the_emptiest_cache_count() -> None:
    colour, plain = "\x1b[1;36m", "\x1b[0;0m"
    ranks = [
        f"{colour}(Worker_TP{rank} pid=11{rank}){plain} INFO 11-03 10:01:00 [gpu_worker.py:298] {text}"
        for rank, weights, left in ((0, 7.71, 61.31), (1, 7.73, 60.02))
        for text in (f"Model loading took {weights} GiB and 5.0 seconds", f"Available KV cache memory: {left} GiB")
    ]
    log = read("\n".join((log_0_11_0(tensor_parallel_size=2), *ranks)))
    assert log.split == Split(2)
    assert (gib(log.figures.weights_bytes), gib(log.figures.kv_bytes)) == (7.73, 60.02)


def test_0_32_gives_the_memory_of_the_whole_start() -> None:
    log = read(log_0_32_0())
    figures = log.figures
    assert (log.version, log.options.utilization) == (EngineVersion(0, 32), 0.92)
    assert (gib(figures.total_bytes), gib(figures.consumed_bytes), gib(figures.kv_bytes)) == (79.19, 15.6, 52.0)
    assert gib(figures.activations_bytes) == 1.45, "its peak includes the charge for graphs"
    assert (gib(figures.charged_graphs_bytes), gib(figures.graphs_bytes)) == (0.55, 0.5)
    assert (figures.kv_tokens, figures.concurrency) == (378_656, 11.56)
    assert log.options.unfollowed == ("--attention-backend='FLASHINFER'",)


def test_between_0_21_and_0_26_the_peak_does_not_include_the_graphs() -> None:
    text = (
        log_0_32_0("0.24.0")
        .replace("consumed memory (weights + non-torch)", "weight")
        .replace("GiB for peak activation, and", "GiB for peak activation, 0.25 GiB for non-torch memory, and")
    )
    figures = read(text).figures
    assert (gib(figures.activations_bytes), gib(figures.outside_torch_bytes)) == (2.0, 0.25)
    assert (gib(figures.charged_graphs_bytes), figures.consumed_bytes) == (0.55, None)


@pytest.mark.parametrize(("release", "charged"), [("0.18.0", None), ("0.21.0", 0.55)])
def test_graphs_are_charged_since_0_21(release: str, charged: float | None) -> None:
    assert gib(read(log_0_32_0(release)).figures.charged_graphs_bytes) == charged


def test_an_engine_that_estimates_no_graphs_charges_none() -> None:
    text = log_0_32_0().replace("profiling is enabled (default since", "profiling is disabled (default since")
    figures = read(text).figures
    assert (figures.charged_graphs_bytes, gib(figures.activations_bytes)) == (None, 2.0)


def test_options_that_change_the_memory_are_read() -> None:
    arguments = {
        "enable_expert_parallel": True,
        "cpu_offload_gb": 4.0,
        "enable_lora": True,
        "max_loras": 3,
        "gpu_memory_utilization": 0.83,
        "speculative_config": {"method": "deepseek_mtp", "num_speculative_tokens": 2},
        "language_model_only": True,
        "hf_overrides": {"rope_scaling": {"factor": 2, "note": "a, 'b'"}},
    }
    options = read(
        log_0_11_0(
            arguments=arguments,
            dtype="torch.float16",
            quantization="fp8",
            kv_cache_dtype="fp8_e4m3",
            enforce_eager=True,
            tensor_parallel_size=4,
        )
    )
    assert options.split == Split(4, expert_parallel=True)
    read_options = options.options
    assert (read_options.precision, read_options.quantizes_to) == (Precision.FP16, Precision.FP8)
    assert (read_options.kv_precision, read_options.enforce_eager) == (KvPrecision.FP8, True)
    assert (read_options.residency, read_options.lora) == (CpuOffload(4 * GIB), LoraSlots(3, 16))
    assert (read_options.utilization, read_options.media) == (0.83, MediaUse(text_only=True))
    assert read_options.drafting is not None
    assert (read_options.drafting.method, read_options.drafting.tokens) == (DraftMethod.MTP, 2)
    assert [each.partition("=")[0] for each in read_options.unfollowed] == ["--hf-overrides"]


def test_drafting_without_a_law_is_named_and_not_followed() -> None:
    options = read(log_0_11_0(arguments={"speculative_config": {"method": "suffix"}})).options
    assert options.drafting is None
    assert options.unfollowed == ("--speculative-config={'method': 'suffix'}",)


@pytest.mark.parametrize(
    ("text", "reason", "available"),
    [
        (TOO_SMALL_0_10, StartFailure.KV_CACHE_TOO_SMALL, 1.25),
        (NOTHING_LEFT, StartFailure.NO_KV_CACHE, None),
        (OUT_OF_MEMORY, StartFailure.OUT_OF_MEMORY, None),
    ],
)
def test_a_failed_start_says_why(text: str, reason: StartFailure, available: float | None) -> None:
    log = read(log_0_11_0(text))
    assert log.failure is not None
    assert (log.failure.reason, gib(log.failure.available_kv_bytes), log.served) == (reason, available, False)


def test_what_a_failure_needs_is_read() -> None:
    figures = read(log_0_11_0(TOO_SMALL_0_10)).figures
    assert (gib(figures.kv_needed_bytes), figures.longest_context) == (4.5, 9104)
    assert gib(read(log_0_11_0(OUT_OF_MEMORY)).figures.total_bytes) == 79.19


def test_an_engine_that_served_did_not_fail_while_it_started() -> None:
    log = read(log_0_11_0(*figures_0_11_0(53.0), OUT_OF_MEMORY))
    assert (log.served, log.failure) == (True, None)


def test_the_last_start_of_a_log_counts() -> None:
    twice = f"{log_0_11_0(OUT_OF_MEMORY)}\n{log_0_11_0(*figures_0_11_0(53.0))}"
    assert (read(twice).failure, read(twice).served) == (None, True)
    assert read(f"{log_0_11_0(*figures_0_11_0(53.0))}\n{log_0_11_0(OUT_OF_MEMORY)}").failure is not None


@pytest.mark.parametrize(
    "first",
    [
        ("INFO [api_server.py:1839] vLLM API server version 0.11.2",),
        ("INFO [api_utils.py:347] vLLM server version 0.11.2, serving model x",),
        logo("0.11.2"),
    ],
)
def test_a_server_that_ends_before_its_engine_starts_has_a_release(first: tuple[str, ...]) -> None:
    log = read("\n".join((*first, f"INFO [utils.py:233] non-default args: {{'model': '{MODEL}'}}", OUT_OF_MEMORY)))
    assert (log.version, log.model) == (EngineVersion(0, 11, 2), MODEL)
    again = read("\n".join((*first, OUT_OF_MEMORY, *first)))
    assert again.failure is None, "it started anew"


def test_a_v0_engine_and_a_processor_teach_nothing() -> None:
    older = config_line("0.8.5").replace("a V1 LLM", "a V0 LLM")
    assert "V0 engine" in read(f"INFO vLLM API server version 0.8.5\n{older}").complaint
    assert "without a GPU" in read(log_0_11_0(device_config="cpu")).complaint
    assert read(log_0_11_0()).complaint == ""


def test_0_8_5_v0_gives_its_figures_in_one_message() -> None:
    """``worker/worker.py``."""
    message = (
        "INFO 04-30 08:01:00 [worker.py:287] the current vLLM instance can use total_gpu_memory (79.19GiB) x "
        "gpu_memory_utilization (0.90) = 71.27GiB\nINFO 04-30 08:01:00 [worker.py:287] model weights take 15.27GiB; "
        "non_torch_memory takes 0.14GiB; PyTorch activation peak memory takes 1.20GiB; the rest of the memory reserved "
        "for KV Cache is 54.66GiB."
    )
    log = read(f"INFO vLLM API server version 0.8.5\n{message}")
    figures = log.figures
    assert (gib(figures.total_bytes), gib(figures.weights_bytes), gib(figures.kv_bytes)) == (79.19, 15.27, 54.66)
    assert (gib(figures.outside_torch_bytes), gib(figures.activations_bytes)) == (0.14, 1.2)
    assert log.options.utilization == 0.9


def test_a_development_build_counts_as_its_release() -> None:
    build = "0.13.0rc2.dev112+g763963aa7.d20251213"
    log = read(log_0_11_0().replace("(v0.11.0)", f"(v{build})"))
    assert (log.build, log.version) == (build, EngineVersion(0, 13))


@pytest.mark.parametrize("text", ["", "INFO: started\nlistening on :8080", "\x00\x01\x02" * 100])
def test_other_texts_are_no_log(text: str) -> None:
    assert read_start_log(text.splitlines()) is None


def test_the_gpu_is_read_where_a_kernel_names_its_file() -> None:
    line = "Using configuration from /x/E=8,N=14336,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8.json"
    assert read(log_0_11_0(line)).gpu_name == "NVIDIA_H100_80GB_HBM3"
    assert read(log_0_11_0()).gpu_name is None


def requested(text: str) -> str:
    """A request in the log (``entrypoints/logger.py``): one line, however many the prompt has."""
    return f"(APIServer pid=1) INFO 11-20 09:00:50 [logger.py:42] Received request chatcmpl-1: prompt: {text!r}"


PLAYED = [
    "vLLM API server version 0.9.1",
    *logo("0.9.1"),
    config_line("0.9.1", "stranger/model", tensor_parallel_size=8, device_config="cpu"),
    "non-default args: {'model': 'stranger/model', 'gpu_memory_utilization': 0.11}",
    "Chunked prefill is enabled with max_num_batched_tokens=17.",
    "Model loading took 99.0 GiB and 1.0 seconds",
    "Available KV cache memory: 0.01 GiB",
    "GPU KV cache size: 1 tokens",
    "GPU KV cache size: 1 tokens, Maximum concurrency for 1 tokens per request: 99.0x",
    "Estimated CUDA graph memory: 99.0 GiB total",
    "CUDA graph memory profiling is disabled",
    "Graph capturing finished in 1 secs, took 99.0 GiB",
    (
        "Free memory on device (1.0/2.0 GiB) on startup. Desired GPU memory utilization is (0.11, 1.0 GiB). Actual "
        "usage is 99.0 GiB for consumed memory, 99.0 GiB for peak activation, 99.0 GiB for non-torch memory"
    ),
    "init engine (profile, create kv cache, warmup model) took 1.0 seconds",
    "INFO:     Application startup complete.",
    TOO_SMALL_0_10,
    OUT_OF_MEMORY,
]
"""The lines of another start, as a prompt may hold them."""


@pytest.mark.parametrize("text", PLAYED)
def test_a_request_that_is_logged_plays_no_start(text: str) -> None:
    alone, lines = log_0_32_0(), log_0_32_0().splitlines()
    assert read("\n".join((*lines[:-3], requested(text), *lines[-3:], requested(text)))) == read(alone)


@given(
    prompts=st.lists(st.lists(st.sampled_from(PLAYED), min_size=1).map("\n".join), min_size=1, max_size=3),
    filler=st.text(max_size=30),
    place=st.integers(5, 12),
)
def test_no_prompt_changes_what_a_log_says(prompts: list[str], filler: str, place: int) -> None:
    lines = log_0_32_0().splitlines()
    among = [requested(f"{filler}{text}") for text in prompts]
    assert read("\n".join((*lines[:place], *among, *lines[place:]))) == read(log_0_32_0())


def test_what_follows_the_start_is_about_requests_and_an_own_line_before_counts() -> None:
    lines = log_0_32_0().splitlines()
    own = "(Worker_TP1 pid=2) INFO 11-20 09:00:50 [gpu_worker.py:760] Available KV cache memory: 0.25 GiB"
    assert gib(read("\n".join((*lines[:-1], own, lines[-1]))).figures.kv_bytes) == 0.25
    assert gib(read("\n".join((*lines, own))).figures.kv_bytes) == 52.0


@pytest.mark.parametrize(
    "front",
    [
        "",
        "[pod/chat-0/engine] ",
        "2026-11-20T09:00:00.000000000+01:00 stdout F ",
        "chat-1  | ",
        "(EngineCore_DP0 pid=1) (RayWorkerWrapper pid=2, ip=10.0.0.1) ",
        "(VllmWorker rank=1 pid=3) ",
        "chat-1  | 2026-11-20T09:00:00.000000000Z ",
        "Nov 20 09:00:50 node-1 vllm[71]: ",
        "2026-11-20T09:00:50+0100 node-1.example vllm-chat[71]: ",
        "(ServeReplica:default:LLMServer pid=1) (EngineCore_DP0 pid=2) (RayWorkerWrapper pid=3, ip=10.0.0.1) ",
    ],
)
def test_what_tools_and_processes_put_in_front_of_a_line_is_known(front: str) -> None:
    line = "INFO 11-20 09:00:50 [v1/worker/gpu_worker.py:760] Available KV cache memory: 0.25 GiB"
    assert gib(read(f"{log_0_11_0()}\n{front}{line}").figures.kv_bytes) == 0.25
    assert read(f"{log_0_11_0()}\n{front}said: {line}").figures.kv_bytes is None


HOSTILE = {
    "one line": ["Available KV cache memory: " + "9" * 20_000_000],
    "brackets": ["vLLM API server version 0.11.0", "args: " + "{[(" * 5_000_000],
    "quotes": ["vLLM API server version 0.11.0", "non-default args: {" + "'a': '" * 3_000_000],
    "digits and blanks": ["vLLM API server version 0.11.0", *(["Free memory on device (" + "1 " * 30_000] * 10)],
    "many starts": ["vLLM API server version 0.11.0"] * 100_000,
    "many figures": ["vLLM API server version 0.11.0", *(["Model loading took 1.0 GiB and"] * 100_000)],
    "fronts": ["vLLM API server version 0.11.0", *(["(1 " * 20_000 + "Model loading took 1.0 GiB"] * 10)],
    "escapes": ["vLLM API server version 0.11.0 " + "\x1b[" * 1_000_000],
}


@every_case("lines", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_content_makes_the_reading_slow(lines: Iterable[str]) -> None:
    with measured_effort() as spent:
        read_start_log(lines)
    assert spent.amount < MOST_EFFORT


def test_of_many_long_lines_no_more_characters_are_kept_than_the_limit() -> None:
    line = "Free memory on device (" + "1 " * 30_000
    kept = last_start().of(["vLLM API server version 0.11.0", *([line] * 2_000)])
    assert MOST_CHARACTERS - len(line) <= sum(map(len, kept)) <= MOST_CHARACTERS


def test_no_more_lines_are_kept_than_the_limit_and_none_longer() -> None:
    weights = ["Model loading took 1.0 GiB and"] * MOST_LINES
    late = read_start_log(["vLLM API server version 0.11.0", *weights, "Model loading took 9.0 GiB and"])
    assert late is not None
    assert gib(late.figures.weights_bytes) == 1.0
    far = read_start_log(["vLLM API server version 0.11.0", " " * LONGEST_LINE + "Model loading took 9.0 GiB and"])
    assert far is not None
    assert far.figures.weights_bytes is None


def test_fields_of_the_outermost_level_are_read() -> None:
    found = fields_of("Config(model='a, b', inner={'model': 'c', 'x': [1, 2]}, n=3, model='d') and more")
    assert found == {"model": "'a, b'", "inner": "{'model': 'c', 'x': [1, 2]}", "n": "3"}
    assert fields_of('{\'a\': "it\'s", "b": None}') == {"a": '"it\'s"', "b": "None"}
    assert (text_in("'a, b'"), text_in("None"), text_in("x")) == ("a, b", None, "x")
    assert (integer_in("12"), integer_in("'12'"), integer_in("1.5"), integer_in("9" * 20)) == (12, 12, None, None)
    assert (number_in("0.9"), number_in("nan"), number_in(None)) == (0.9, None, None)


def test_defaults_are_those_of_the_release_and_the_gpu() -> None:
    h100, a100, l4 = (gpu(name) for name in ("h100-sxm-80gb", "a100-sxm-80gb", "l4-24gb"))
    assert [default_utilization(EngineVersion(0, minor)) for minor in (8, 19, 20, 32)] == [0.9, 0.9, 0.92, 0.92]
    assert [default_step(EngineVersion(0, 11), each) for each in (h100, a100, l4)] == [8192, 2048, 2048]
    assert [default_sequences(EngineVersion(0, 11), each) for each in (h100, a100, l4)] == [1024, 256, 256]
    assert default_step(EngineVersion(0, 28), gpu("b200-sxm-180gb")) == 16384
    assert default_step(EngineVersion(0, 27), gpu("b200-sxm-180gb")) == 8192
    assert default_sequences(EngineVersion(0, 8, 2), l4) == 1024
