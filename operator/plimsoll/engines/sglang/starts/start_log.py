"""The start-up log of an SGLang engine, 0.5.14 to 0.5.23: text in, values out.

The texts are from ``entrypoints/engine.py``, ``model_executor/model_runner.py``, ``mem_cache/kv_cache_configurator.py``
(before 0.5.18 ``model_runner_kv_cache_mixin.py``), ``mem_cache/memory_pool.py`` and ``managers/scheduler.py``, read in
0.5.14, 0.5.18, 0.5.19, 0.5.20 and 0.5.23. Every rank logs its own figures. They are GiB with two digits, called "GB".
No line names the release: the form of the arguments says on which side of 0.5.19 it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.decisions.outcomes import EngineSettings
from plimsoll.domain.engines.engine_choice import EngineVersion, StaticShare
from plimsoll.domain.engines.failures import EngineFailure
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import GIB
from plimsoll.engines.sglang.failures import find_failure
from plimsoll.engines.sglang.memory.free import taken_bytes
from plimsoll.engines.sglang.starts.start_options import options_of, split_of, window_thousandths
from plimsoll.engines.start_fields import fields_of, integer_in, text_in
from plimsoll.engines.start_lines import DEVICE_NAME, LastStart, first_match, line_that_begins, until
from plimsoll.engines.starts import StartFigures, StartLog

_GB = r"(\d{1,6}(?:\.\d{1,6})?) ?GB"
_COUNT = r"(-?\d{1,15})\b"

_FRONT = r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?[ \w]{0,80}\] "
"""The time and the ranks in front of a line's own words."""

_line = partial(line_that_begins, _FRONT)

_SERVER_STARTS = _line(r"server_args=(ServerArgs\(|\{)")
"""The arguments, once for each start: an object up to 0.5.18, and since 0.5.19 a dictionary of what they came to."""

PRINTS_A_DICTIONARY_SINCE = EngineVersion(0, 5, 19)

_RANK = re.compile(r"\[[^\]\[]{0,40}?((?: (?:[A-Z]+_)?(?:DP|PP|TP|EP)\d{1,4})+)\]")
"""The ranks of a process in front of its lines: ``[2026-06-10 03:00:19 DP0 TP0 EP0]``."""

_FREE = _line(rf"Load weight begin\. avail mem={_GB}")
_WEIGHTS = _line(rf"Load weight end\..{{0,400}}?mem usage={_GB}")
_STATES = _line(rf"Mamba Cache is allocated\. max_mamba_cache_size: {_COUNT}")
_POOL = _line(rf"KV Cache is allocated\.(?: dtype: [\w.]{{1,40}},)? #tokens: {_COUNT}")
_POOL_TYPE = _line(r"KV Cache is allocated\. dtype: (?:torch\.)?(\w{1,40}),")
_FULL_POOL = _line(rf"Use sliding window memory pool\. full_layer_tokens={_COUNT}")
_GRAPHS = _line(rf"Capture [\w -]{{0,60}}graph end\..{{0,200}}?mem usage={_GB}", flags=re.IGNORECASE)
_TOKENS = _line(rf"max_total_num_tokens={_COUNT}, chunked_prefill_size=")
_REQUESTS = _line(r"max_total_num_tokens=.{0,200}?\bmax_running_requests=(\d{1,9}), context_len=")
_CONTEXT = _line(r"max_total_num_tokens=.{0,200}?\bcontext_len=(\d{1,9}), available_")
_SPARE = _line(rf"max_total_num_tokens=.{{0,300}}?\bavailable_gpu_mem={_GB}")
_TOTAL = re.compile(r"total capacity of (\d{1,6}(?:\.\d{1,6})?) GiB")
_SERVES = _line(r"The server is fired up and ready to roll!")
_SIZES_LATER = _line("KV Cache VA upper bound")

_MARKS = (
    "server_args=",
    "Load weight begin",
    "Load weight end",
    "Cache is allocated",
    "KV Cache VA upper bound",
    "sliding window memory pool",
    "graph end",
    "max_total_num_tokens=",
    "max_total_tokens=",
    "device_name=",
    "The server is fired up",
    "out of memory",
    "OutOfMemoryError",
    "leave no GPU memory",
    "Not enough memory",
    "Not enough GPU memory",
    "state cache is too small",
    "cannot hold even one request",
    "memory capacity is unbalanced",
    "divisible by",
    "died during initialization",
)
"""Every line that is read holds one of these texts."""

_NO_GPU = "The engine ran on a processor without a GPU, so its log says nothing about the memory of a GPU."
_CAPPED = "The user gave the tokens of the KV cache (--max-total-tokens), so they say nothing about the other terms."
_SIZED_LATER = (
    "The engine sized its cache after the capture of graphs (SGLANG_ENABLE_POST_CAPTURE_KV_SIZING), for which no "
    "memory law is known."
)


def last_start() -> LastStart:
    """Return a keeper of lines. The arguments of the server begin a start."""
    return LastStart(_MARKS, _SERVER_STARTS)


def read_lines(kept: Sequence[str]) -> StartLog | None:
    """Return the start that kept lines are of; None where they are none of SGLang's, or begin after its arguments."""
    begin = next(_found(kept, _SERVER_STARTS), None)
    if begin is None:
        return None
    arguments = fields_of(begin.string[begin.start(1) :])
    kept = until(kept, _SERVES)  # what follows is about requests
    served = any(_SERVES.search(line) for line in kept)
    figures = _figures(kept)
    return StartLog(
        engine="sglang",
        build="",
        version=None,
        model=text_in(arguments.get("model_path")),
        split=split_of(arguments),
        options=options_of(
            arguments,
            context=integer_in(first_match(kept, _CONTEXT)),
            requests=integer_in(first_match(kept, _REQUESTS)),
            cache_type=first_match(kept, _POOL_TYPE),
        ),
        figures=figures,
        gpu_name=first_match(kept, DEVICE_NAME),
        failure=None if served else _failure(kept, figures),
        served=served,
        complaint=_complaint(kept, arguments, figures, served=served),
        window_thousandths=window_thousandths(arguments),
        attention=text_in(arguments.get("attention_backend")),
        before=None if begin[1] == "{" else PRINTS_A_DICTIONARY_SINCE,
        since=PRINTS_A_DICTIONARY_SINCE if begin[1] == "{" else None,
    )


def _figures(lines: Sequence[str]) -> StartFigures:
    """Return the figures of one start. A draft model is loaded after the model, by the same ranks."""
    tokens = next((found for each in (_TOKENS, _FULL_POOL, _POOL) if (found := _counts(lines, each))), [])
    total = first_match(lines, _TOTAL)
    return StartFigures(
        total_bytes=None if total is None else int(float(total) * GIB),
        weights_bytes=_bytes(lines, _WEIGHTS, _first, max),
        graphs_bytes=_bytes(lines, _GRAPHS, sum, max),
        kv_tokens=min(tokens, default=None),
        free_bytes=_bytes(lines, _FREE, _first, min),
        spare_bytes=_bytes(lines, _SPARE, _first, min),
        state_slots=min((each for each in _counts(lines, _STATES) if each >= 0), default=None),
    )


def _found(lines: Sequence[str], pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    return (found for line in lines if (found := pattern.search(line)) is not None)


def _counts(lines: Sequence[str], pattern: re.Pattern[str]) -> list[int]:
    return [int(found[1]) for found in _found(lines, pattern)]


def _first(values: Sequence[float]) -> float:
    return values[0]


def _bytes(
    lines: Sequence[str],
    pattern: re.Pattern[str],
    of_rank: Callable[[Sequence[float]], float],
    choose: Callable[..., float],
) -> int | None:
    """Return the figure of the fullest or of the emptiest rank; None where no line has one."""
    ranks: dict[str, list[float]] = {}
    for found in _found(lines, pattern):
        rank = _RANK.search(found.string)
        ranks.setdefault("" if rank is None else rank[1], []).append(float(found[1]))
    return int(choose(of_rank(values) for values in ranks.values()) * GIB) if ranks else None


_SHORT = re.compile(r"--mem-fraction-static=(0?\.\d{1,20})\..{0,200}?available/pre = (-?\d{1,3}\.\d{1,20})")


def _failure(lines: Sequence[str], figures: StartFigures) -> EngineFailure | None:
    """Return why the engine ended. What weights leave of the share follows from the least share that it names."""
    failure = find_failure("\n".join(lines))
    short = None if failure is None else _SHORT.search(failure.message)
    if failure is None or short is None or figures.free_bytes is None:
        return failure
    return replace(failure, available_kv_bytes=int((float(short[1]) - float(short[2])) * figures.free_bytes))


def _complaint(lines: Sequence[str], arguments: Mapping[str, str], figures: StartFigures, *, served: bool) -> str:
    if text_in(arguments.get("device")) == "cpu":
        return _NO_GPU
    if any(_SIZES_LATER.search(line) for line in lines):
        return _SIZED_LATER
    if served and figures.kv_tokens is not None and figures.kv_tokens <= 0:
        return f"The log says {figures.kv_tokens:,} tokens of KV cache, and no engine serves without any."
    cap = integer_in(arguments.get("max_total_tokens"))
    return _CAPPED if cap is not None and figures.kv_tokens is not None and figures.kv_tokens >= cap else ""


_ROUNDED = int(0.3 * GIB)
"""Cards of one type differ by less: the catalogue has one figure for all of them."""


def placed(log: StartLog, gpu: GpuType, release: EngineVersion) -> StartLog:
    """Return a start once its GPU and release are known.

    On AMD's accelerators the attention back end decides the share in force. Memory that something else holds is no part
    of the law.

    Raises:
        InvalidInput: the log has the form of other releases.
    """
    if log.since is not None and release < log.since:
        raise InvalidInput(
            "--engine", str(release), f"Its form is that of {log.since} and later: name its own release."
        )
    if log.before is not None and release >= log.before:
        raise InvalidInput("--engine", str(release), f"Its form is that of releases before {log.before}: name its own.")
    options = log.options
    if gpu.vendor is Vendor.AMD and log.attention is not None:
        options = replace(options, unfollowed=(*options.unfollowed, f"--attention-backend={log.attention}"))
    return replace(log, options=options, complaint=log.complaint or _held_by_others(log, gpu))


def _held_by_others(log: StartLog, gpu: GpuType) -> str:
    free, taken = log.figures.free_bytes, taken_bytes(gpu, log.split)
    usual = gpu.usable_bytes - taken.expected
    if free is None or free >= usual - taken.more - _ROUNDED:
        return ""
    return (
        f"{free / GIB:.2f} GiB were free before the weights, and {usual / GIB:.2f} GiB are usual on {gpu.name}: it is "
        "another GPU, or something else held memory, so the start says nothing about an engine that is alone."
    )


def logged_settings(log: StartLog, settings: EngineSettings) -> EngineSettings:
    """Return the settings of a start: its own share of the free memory and its own limits.

    Raises:
        ValueError: the log names no share.
    """
    options = log.options
    if options.utilization is None:
        raise ValueError("the log names no share of the free memory")
    return replace(
        settings,
        max_num_seqs=options.max_num_seqs or settings.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens or settings.max_num_batched_tokens,
        static=StaticShare(
            max(1, min(999, round(1000 * options.utilization))),
            window_thousandths=log.window_thousandths,
            state_slots=log.figures.state_slots,
        ),
    )
