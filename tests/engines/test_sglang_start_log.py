"""Start-up logs of SGLang: which values are read, and that no content stops the reading or makes it slow."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.engines.failures import StartFailure
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.sglang.starts.start_log import last_start, read_lines
from plimsoll.engines.starts import StartLog
from tests.support.sglang_logs import AT, GEMMA_3090, QWEN3_32B, QWEN38_27B_H100, READY, arguments, log
from tests.support.start_logs import log_0_32_0
from tests.support.tables import every_case
from tests.support.work import measured_effort

REAL = Path(__file__).parent / "data" / "sglang_0.5.23_cpu.log"

MOST_EFFORT = 300.0
"""As for the other engine's logs."""


def read(text: str) -> StartLog:
    found = read_lines(last_start().of(text.splitlines()))
    assert found is not None
    return found


def gib(size_bytes: int | None) -> float | None:
    return None if size_bytes is None else round(size_bytes / GIB, 2)


def with_rank(lines: Iterable[str], rank: str, **figures: tuple[str, str]) -> list[str]:
    changed = [line.replace("TP0]", f"{rank}]") for line in lines]
    for old, new in figures.values():
        changed = [line.replace(old, new) for line in changed]
    return changed


def test_a_start_gives_its_arguments_and_the_figures_of_its_memory() -> None:
    found = read(log(arguments("Qwen/Qwen3-32B"), *QWEN3_32B))
    options, figures = found.options, found.figures
    assert (found.engine, found.model, found.served, found.failure) == ("sglang", "Qwen/Qwen3-32B", True, None)
    assert (found.version, found.build, found.complaint) == (None, "", ""), "no line names the release"
    assert (options.utilization, options.max_model_len, options.max_num_seqs) == (0.9, 40_960, 2048)
    assert (options.max_num_batched_tokens, options.kv_precision, options.unfollowed) == (8192, KvPrecision.BF16, ())
    assert (figures.kv_tokens, gib(figures.free_bytes), gib(figures.spare_bytes)) == (39_078, 78.47, 4.5)
    assert (gib(figures.weights_bytes), gib(figures.graphs_bytes)) == (61.07, 2.97)


def test_of_two_pools_the_tokens_of_all_layers_count_and_of_two_ranks_the_fullest() -> None:
    second = with_rank(
        GEMMA_3090[:7],
        "TP1",
        free=("begin. avail mem=22.91", "begin. avail mem=22.60"),
        more=("usage=5.42", "usage=5.61"),
    )
    first = arguments("gemma-4-12B-it-AWQ", before_0_5_19=True, tp_size=2, swa_full_tokens_ratio=0.0625)
    found = read(log(first, *GEMMA_3090, *second))
    assert (found.split, found.window_thousandths, found.figures.kv_tokens) == (Split(2), 62, 565_446)
    assert (gib(found.figures.weights_bytes), gib(found.figures.free_bytes)) == (5.61, 22.6)


def test_states_have_their_slots_and_a_cache_without_the_last_line_its_pool() -> None:
    found = read(log(arguments("Qwen/Qwen3.8-27B-FP8"), *QWEN38_27B_H100))
    assert (found.figures.state_slots, found.figures.kv_tokens, found.served) == (124, 330_323, False)


def test_a_draft_is_loaded_after_the_model_and_is_no_part_of_its_weights() -> None:
    """Llama 2 7B with EAGLE on H100 (sgl-project.github.io @7ec3b51c4e51, backend/speculative_decoding.ipynb)."""
    lines = (
        f"{AT} Load weight begin. avail mem=63.64 GB",
        f"{AT} Load weight end. type=LlamaForCausalLM, avail mem=33.29 GB, mem usage=30.34 GB",
        f"{AT} KV Cache is allocated. #tokens: 20480, K size: 5.00 GB, V size: 5.00 GB",
        f"{AT} Load weight begin. avail mem=22.53 GB",
        f"{AT} Load weight end. type=LlamaForCausalLMEagle, avail mem=21.60 GB, mem usage=0.93 GB",
    )
    found = read(log(arguments("meta-llama/Llama-2-7b-chat-hf", speculative_algorithm="EAGLE"), *lines))
    assert (gib(found.figures.free_bytes), gib(found.figures.weights_bytes)) == (63.64, 30.34)
    assert found.options.unfollowed == ("--speculative-algorithm=EAGLE",)


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"dtype": "float16"}, "precision", Precision.FP16),
        ({"quantization": "fp8"}, "quantizes_to", Precision.FP8),
        ({"kv_cache_dtype": "fp8_e4m3"}, "kv_precision", KvPrecision.FP8),
        ({"disable_cuda_graph": True}, "enforce_eager", True),
        ({"cuda_graph_config": {"decode": {"backend": "disabled"}}}, "enforce_eager", True),
        ({"cuda_graph_config": {"decode": {"backend": "full"}}}, "enforce_eager", False),
        ({"trust_remote_code": True}, "trusts_code", True),
        ({"mem_fraction_static": None}, "utilization", None),
        ({"mem_fraction_static": 1.7}, "utilization", None),
        ({"cpu_offload_gb": 4}, "unfollowed", ("--cpu-offload-gb=4",)),
        ({"enable_lora": True}, "unfollowed", ("--enable-lora=True",)),
        ({"dcp_size": 2}, "unfollowed", ("--dcp-size=2",)),
        ({"enable_fp32_lm_head": True}, "unfollowed", ("--enable-fp32-lm-head=True",)),
        ({"enable_paged_experts": True, "int8_mamba_ckpt_size": None}, "unfollowed", ("--enable-paged-experts=True",)),
        ({"dcp_size": 1, "moe_dp_size": 1}, "unfollowed", ()),
    ],
    ids=str,
)
def test_options_are_read_in_both_forms(fields: dict[str, Any], name: str, value: object) -> None:
    for is_object in (False, True):
        found = read(arguments("Qwen/Qwen3-8B", before_0_5_19=is_object, **fields))
        assert getattr(found.options, name) == value


@pytest.mark.parametrize(
    ("fields", "split"),
    [
        ({"tp_size": 8, "ep_size": 8}, Split(8, expert_parallel=True)),
        ({"tp_size": 8, "attn_dp_size": 8}, Split(1, data_parallel=8)),
        ({"tp_size": 8, "dp_size": 4, "enable_dp_attention": True}, Split(2, data_parallel=4)),
        ({"tp_size": 2, "dp_size": 4}, Split(2)),
        ({"tp_size": 4, "pp_size": 2}, Split(4, 2)),
        ({"tp_size": 10**9}, Split(1)),
        ({"tp_size": 3, "attn_dp_size": 2}, Split(3)),
    ],
    ids=str,
)
def test_ranks_of_attention_are_among_those_of_tensor_parallelism(fields: dict[str, Any], split: Split) -> None:
    assert read(arguments("deepseek-ai/DeepSeek-R1", **fields)).split == split


def test_a_real_start_is_read_as_it_was_printed() -> None:
    """0.5.23 on a processor, with a tiny model, four requests of 1,024 tokens and a cap of 4,096."""
    text = REAL.read_text(encoding="utf-8")
    found = read(text)
    assert (found.model, found.served, found.failure, found.split) == ("/models/tiny", True, None, Split(1))
    assert (found.options.max_model_len, found.options.max_num_seqs, found.figures.kv_tokens) == (1024, 4, 4096)
    assert (found.options.max_num_batched_tokens, found.options.utilization) == (2048, 0.846)
    assert (found.options.enforce_eager, found.options.unfollowed) == (True, ())
    assert (gib(found.figures.free_bytes), gib(found.figures.weights_bytes)) == (18.93, 0.04)
    assert "on a processor" in found.complaint
    assert "--max-total-tokens" in read(text.replace("'device': 'cpu'", "'device': 'cuda'")).complaint
    assert len(text.splitlines()) > 30
    assert len(last_start().of(text.splitlines())) < 12, "most lines say nothing about memory"


def test_the_form_of_the_arguments_says_which_releases_it_may_be() -> None:
    boundary = EngineVersion(0, 5, 19)
    found = [read(arguments("Qwen/Qwen3-8B", before_0_5_19=each)) for each in (True, False)]
    assert [(each.since, each.before) for each in found] == [(None, boundary), (boundary, None)]


@pytest.mark.parametrize(
    ("lines", "reason", "left"),
    [
        (
            (
                "[2026-10-02 03:00:20] Load weight begin. avail mem=20.00 GB",
                (
                    "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.7. "
                    "Raise --mem-fraction-static above 0.750 (minimum viable = 1 - available/pre = 0.7500). If using "
                    "speculative decoding, draft weights are now counted."
                ),
            ),
            StartFailure.NO_KV_CACHE,
            -1.0,
        ),
        (
            ("max_total_tokens=131072 is larger than the profiled value -561981. Use the profiled value instead.",),
            StartFailure.NO_KV_CACHE,
            None,
        ),
        (
            ("Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 672.00 MiB",),
            StartFailure.OUT_OF_MEMORY,
            None,
        ),
        (("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.50 GiB.",), StartFailure.OUT_OF_MEMORY, None),
    ],
)
def test_a_failed_start_says_why(lines: tuple[str, ...], reason: StartFailure, left: float | None) -> None:
    found = read(log(arguments("Qwen/Qwen3-8B"), *lines))
    assert found.failure is not None
    assert (found.failure.reason, gib(found.failure.available_kv_bytes)) == (reason, left)
    assert read(log(arguments("Qwen/Qwen3-8B"), *lines, READY)).failure is None, "it served"


@pytest.mark.parametrize(
    ("fields", "line", "why"),
    [
        ({"device": "cpu"}, "", "on a processor"),
        ({"max_total_tokens": 39_078}, "", "--max-total-tokens"),
        ({}, f"{AT} KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 9, KV size: 1 GB", "after the capture"),
    ],
)
def test_what_teaches_nothing_says_why(fields: dict[str, Any], line: str, why: str) -> None:
    assert why in read(log(arguments("Qwen/Qwen3-32B", **fields), line, *QWEN3_32B)).complaint
    uncapped = log(arguments("Qwen/Qwen3-32B", max_total_tokens=50_000), *QWEN3_32B)
    assert read(uncapped).complaint == "", "a cap above what there was room for limits nothing"


def test_the_last_start_of_a_log_counts() -> None:
    first, second = arguments("Qwen/Qwen3-32B"), arguments("Qwen/Qwen3-0.6B")
    found = read(log(first, *QWEN3_32B, second))
    assert (found.model, found.figures.kv_tokens, found.served) == ("Qwen/Qwen3-0.6B", None, False)


@pytest.mark.parametrize("text", ["", "GET /health 200\n" * 50, log_0_32_0(), log(*QWEN3_32B), "server_args=\n"])
def test_other_texts_and_a_log_without_its_beginning_are_no_log(text: str) -> None:
    assert read_lines(last_start().of(text.splitlines())) is None


STRANGERS = (
    arguments("stranger/model"),
    *(line.replace("39078", "7").replace("61.07", "1.00").replace("78.47", "2.00") for line in QWEN3_32B),
    f"{AT} Use sliding window memory pool. full_layer_tokens=7, swa_layer_tokens=7",
    f"{AT} Mamba Cache is allocated. max_mamba_cache_size: 7, conv_state size: 0.34GB",
    f"{AT} KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 9",
)
"""The lines of a start with other figures."""

REQUESTS = (
    "{at} Receive: obj=GenerateReqInput(rid='1', text='{words}', sampling_params={{}})",
    '{at} {{"event": "request.received", "obj": {{"text": "{words}"}}}}',
    '{at} INFO:     127.0.0.1:1 - "GET /{words} HTTP/1.1" 404 Not Found',
    " {words}",
)
"""Lines that hold the text of a client: requests that are logged, an address, and a text of several lines."""


def as_request(form: str, line: str, *, with_time: bool) -> str:
    return form.format(at=AT, words=line if with_time else line.replace(f"{AT} ", ""))


@given(
    st.lists(st.tuples(st.sampled_from(REQUESTS), st.sampled_from(STRANGERS), st.booleans()), max_size=8),
    st.integers(0, len(QWEN3_32B)),
)
@example([(REQUESTS[0], " ".join(STRANGERS), False)], len(QWEN3_32B))
def test_no_text_of_a_request_is_taken_for_a_line_of_the_server(strangers: list[Any], place: int) -> None:
    """Whatever it holds and wherever it stands. The neighbour is the start without any request."""
    lines = [as_request(form, line, with_time=has_time) for form, line, has_time in strangers]
    begin = arguments("Qwen/Qwen3-32B")
    usual = read(log(begin, *QWEN3_32B))
    assert (usual.model, usual.figures.kv_tokens, usual.served, usual.complaint) == ("Qwen/Qwen3-32B", 39_078, True, "")
    assert read(log(*lines, begin, *QWEN3_32B[:place], *lines, *QWEN3_32B[place:], *lines)) == usual
    assert read_lines(last_start().of(lines)) is None


def test_lines_of_figures_after_the_start_change_nothing() -> None:
    usual = log(arguments("Qwen/Qwen3-32B"), *QWEN3_32B)
    assert read(usual + log(*STRANGERS[1:])) == read(usual)


@pytest.mark.parametrize(
    "front",
    [
        "[pod/chat-0/engine] ",
        "2026-10-02T03:00:19.123456789Z ",
        "2026-10-02T03:00:19.123456789+02:00 stderr F ",
        "[pod/chat-0/engine] 2026-10-02T03:00:19.1Z ",
        "chat-1  | 2026-10-02T03:00:19.1Z ",
        "Oct 02 03:00:19 node-1 sglang[71]: ",
        "(ServeReplica:default:Engine pid=71) ",
        "sglang-1  | ",
    ],
)
def test_what_kubectl_a_node_and_compose_put_before_a_line_is_no_part_of_it(front: str) -> None:
    lines = (arguments("Qwen/Qwen3-32B"), *QWEN3_32B)
    assert read(log(*(front + line for line in lines))) == read(log(*lines))


NUMBERS = st.one_of(st.sampled_from(("-1", "0", "-0", "7", "39078")), st.integers(-(10**15) + 1, 10**15 - 1).map(str))
RATIOS = st.one_of(
    st.sampled_from((-3, -0.001, 0, 0.8, 1, 1.001, 9)), st.floats(-10, 10).map(lambda each: round(each, 3))
)


@given(NUMBERS, NUMBERS, NUMBERS, RATIOS, st.sampled_from((0, 1)))
@example("-5", "-5", "-5", -3, 1)
@example("0", "0", "0", 0, 1)
@example("39078", "39078", "124", 0.8, 1)
def test_no_number_that_no_server_can_have_is_believed(
    tokens: str, pool: str, slots: str, ratio: float, ready_lines: int
) -> None:
    lines = (
        *(line.replace("#tokens: 39078", f"#tokens: {pool}").replace("39078", tokens) for line in QWEN3_32B[:-1]),
        f"{AT} Mamba Cache is allocated. max_mamba_cache_size: {slots}, conv_state size: 0.34GB",
        *[READY] * ready_lines,
    )
    found = read(log(arguments("Qwen/Qwen3-32B", swa_full_tokens_ratio=ratio), *lines))
    assert found.served == bool(ready_lines)
    assert found.figures.kv_tokens == int(tokens)
    assert found.figures.state_slots == (int(slots) if int(slots) >= 0 else None)
    assert (found.window_thousandths is None) == (not 0 <= ratio <= 1)
    assert ("no engine serves without any" in found.complaint) == (found.served and int(tokens) <= 0)


HOSTILE: dict[str, Iterable[str]] = {
    "4 MB of one line": [f"{AT} server_args={{" + "'a': [" * 700_000],
    "blanks": [f"{AT} server_args={{", f"{AT} Load weight end." + " " * 4_000_000],
    "marks": [
        f"{AT} server_args={{",
        f"{AT} Load weight end. mem usage= Capture graph end. #tokens: divisible by " * 60_000,
    ],
    "digits": [f"{AT} server_args={{'tp_size': " + "9" * 4_000_000],
    "ranks": [f"{AT} server_args={{", "[" + " TP0" * 900_000],
    "fronts": [f"{AT} server_args={{", *(["[pod/" + "a/" * 300 + "] " + "a-" * 100 + "   " * 5_000 + "|" + AT] * 300)],
    "a request": [f"{AT} server_args={{", f"{AT} Receive: text=" + " ".join(STRANGERS) * 2_000],
    "many": (f"{AT} Capture {'a ' * 40}graph end. {'x' * 150}" for _ in range(20_000)),
}


@every_case("lines", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_content_makes_the_reading_slow(lines: Iterable[str]) -> None:
    with measured_effort() as spent:
        read_lines(last_start().of(lines))
    assert spent.amount < MOST_EFFORT


PARTS = (*QWEN3_32B, *GEMMA_3090, *QWEN38_27B_H100, arguments("Qwen/Qwen3-8B"))


@given(st.lists(st.one_of(st.sampled_from(PARTS), st.text(max_size=80)), max_size=12), st.data())
def test_any_lines_cut_anywhere_are_read_and_the_start_after_them_is_not_touched(lines: list[str], data: Any) -> None:
    cut = [line[: data.draw(st.integers(0, len(line)))] for line in lines]
    found = read_lines(last_start().of(cut))
    assert found is None or found.engine == "sglang"
    whole = read(log(*(line.replace("\n", " ") for line in cut), arguments("Qwen/Qwen3-32B"), *QWEN3_32B))
    assert (whole.model, whole.figures.kv_tokens, whole.served) == ("Qwen/Qwen3-32B", 39_078, True)
