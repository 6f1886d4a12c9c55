"""The start-up log of a vLLM engine, 0.8 to 0.32: text in, values out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from plimsoll.domain.engine_failures import EngineFailure
from plimsoll.domain.versions import EngineVersion
from plimsoll.engines.start_logs import StartLog
from plimsoll.engines.start_options import StartOptions
from plimsoll.engines.vllm.failures import find_failure
from plimsoll.engines.vllm.start_fields import fields_of, text_in
from plimsoll.engines.vllm.start_log_figures import figures_of
from plimsoll.engines.vllm.start_log_lines import ARGUMENTS, ENGINE_STARTS, SERVER_STARTS, SERVES, lines_of_last_start
from plimsoll.engines.vllm.start_options import options_of, split_of

_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?")
_STEP = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d{1,9})\b")
_DEVICE_NAME = re.compile(r"device_name=([A-Za-z0-9_.-]{1,80}?)(?:,|\.json)")
_UTILIZATION = (
    re.compile(r"Desired GPU memory utilization is \((\d(?:\.\d{1,20})?),"),
    re.compile(r"current --gpu-memory-utilization=(\d(?:\.\d{1,20})?) "),
    re.compile(r"less than desired GPU memory utilization \((\d(?:\.\d{1,20})?),"),
    re.compile(r"x gpu_memory_utilization \((\d(?:\.\d{1,20})?)\)"),
)

_OTHER_ENGINE = (
    "It is a log of vLLM's V0 engine. The memory law is that of the V1 engine, so nothing can be learned from it."
)
_NO_GPU = "The engine ran on a processor without a GPU, so its log says nothing about the memory of a GPU."


def read_start_log(lines: Iterable[str]) -> StartLog | None:
    """Return the last start of a log; None where the log is none of vLLM's, or begins after its first lines."""
    kept = lines_of_last_start(lines)
    starts = [found for line in kept if (found := ENGINE_STARTS.search(line)) is not None]
    server = next((found for line in kept if (found := SERVER_STARTS.search(line)) is not None), None)
    build = starts[0][2] if starts else "" if server is None else server[1].strip(",")
    version = _version(build)
    if version is None:
        return None
    config = fields_of(starts[0].string[starts[0].end() :]) if starts else {}
    arguments, are_all = _arguments(kept)
    served = any(SERVES.search(line) for line in kept)
    return StartLog(
        engine="vllm",
        build=build,
        version=version,
        model=text_in(config.get("model")) or text_in(arguments.get("model")) or text_in(arguments.get("model_tag")),
        split=split_of(config, arguments),
        options=_options(kept, config, arguments, are_all=are_all),
        figures=figures_of(kept, version),
        gpu_name=_device(kept),
        failure=None if served else _failure(kept),
        served=served,
        complaint=_complaint(config, [each[1] for each in starts]),
    )


def _version(build: str) -> EngineVersion | None:
    """Return the release of a build: a development build counts as the release that it leads to."""
    found = _RELEASE.match(build)
    return None if found is None else EngineVersion(int(found[1]), int(found[2]), int(found[3] or 0))


def _arguments(lines: Sequence[str]) -> tuple[Mapping[str, str], bool]:
    """Return the user's arguments, and whether they hold the defaults, too."""
    for line in lines:
        found = ARGUMENTS.search(line)
        if found is not None:
            return fields_of(line[found.end() :]), not found[0].startswith("non-default")
    return {}, False


def _options(
    lines: Sequence[str], config: Mapping[str, str], arguments: Mapping[str, str], *, are_all: bool
) -> StartOptions:
    step = next((int(found[1]) for line in lines if (found := _STEP.search(line)) is not None), None)
    options = options_of(config, arguments, batched_tokens=step, are_all=are_all)
    return replace(options, utilization=options.utilization or _logged_utilization(lines))


def _logged_utilization(lines: Sequence[str]) -> float | None:
    found = (pattern.search(line) for line in lines for pattern in _UTILIZATION)
    return next((float(each[1]) for each in found if each is not None), None)


def _device(lines: Sequence[str]) -> str | None:
    return next((found[1] for line in lines if (found := _DEVICE_NAME.search(line)) is not None), None)


def _failure(lines: Sequence[str]) -> EngineFailure | None:
    return find_failure("\n".join(lines))


def _complaint(config: Mapping[str, str], kinds: Sequence[str]) -> str:
    if "V0" in kinds:
        return _OTHER_ENGINE
    return _NO_GPU if text_in(config.get("device_config")) == "cpu" else ""
