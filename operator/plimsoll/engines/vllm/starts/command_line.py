"""A command line that starts a vLLM server: which words are its arguments, and what these say.

The arguments become the fields that a start-up log has (``non-default args: {...}``), so both are read by
:mod:`~plimsoll.engines.vllm.starts.start_options`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType

from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.engines.base import Feature
from plimsoll.engines.start_fields import integer_in, number_in, text_in
from plimsoll.engines.starts import ImageRelease, StartCommand, as_written, unresolved_in
from plimsoll.engines.vllm.flags.conditions import unchecked_options
from plimsoll.engines.vllm.flags.extra_arguments import is_unfollowed_flag, lacking
from plimsoll.engines.vllm.flags.parser import Fault, Reading, Setting, read_words, size_in
from plimsoll.engines.vllm.flags.table import table_for, table_with_older_flags
from plimsoll.engines.vllm.model_runner import named_runner, unfollowed_variables
from plimsoll.engines.vllm.refusals import CONDITIONAL
from plimsoll.engines.vllm.releases.options import SINCE
from plimsoll.engines.vllm.starts.start_options import READ, options_of, split_of

_TITLE, _PROGRAM, _SERVE = "vLLM", "vllm", "serve"
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_COMMAND_MODULES = ("vllm", "vllm.entrypoints.cli.main")
_SCRIPTS = ("vllm/entrypoints/openai/api_server.py", "vllm/entrypoints/api_server.py")

EXAMPLE = "vllm serve Qwen/Qwen3-8B --max-model-len 32768"

_RELEASE = re.compile(r"(?:.*vllm[_-])?v?(\d{1,2})\.(\d{1,3})(?:\.(\d{1,3}))?(?![.\d])(.*)")
_OTHER_BUILD = re.compile(r"[._-]?(rc|dev|post|a|b)\d|\+")
_LARGEST_MAJOR = 9
"""Tags such as ``25.09-py3`` count years and months."""

_LARGEST_NUMBER = 10**9
_DEGREES = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "decode_context_parallel_size",
)
_MOST_GPUS = 64

_COUNTS = (
    *_DEGREES,
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "max_loras",
    "nnodes",
    "block_size",
    "num_gpu_blocks_override",
)
"""Numbers that begin with 1."""

_CHOOSES = ("auto", "-1")
"""Values of ``--max-model-len`` with which the engine takes the longest context that fits."""

_NUMERIC = ("whole", "number", "size", "size-or-auto", "object", "json")

_CACHE_FEATURES: Mapping[KvPrecision, Feature] = MappingProxyType(
    {
        KvPrecision.NVFP4: Feature.KV_NVFP4,
        KvPrecision.INT8: Feature.KV_SCALES,
        KvPrecision.FP8_SCALED: Feature.KV_SCALES,
        KvPrecision.INT4: Feature.KV_INT4,
        KvPrecision.TURBO_K8V4: Feature.KV_TURBOQUANT,
        KvPrecision.TURBO_4BIT: Feature.KV_TURBOQUANT,
        KvPrecision.TURBO_K3V4: Feature.KV_TURBOQUANT,
        KvPrecision.TURBO_3BIT: Feature.KV_TURBOQUANT,
    }
)


def server_arguments(words: Sequence[str]) -> tuple[str, ...] | None:
    """Return the arguments of the server in the words of one command; None if it starts none."""
    for index, word in enumerate(words):
        after = words[index + 1 :]
        following = after[0] if after else ""
        if word.rpartition("/")[2] == _PROGRAM and following == _SERVE:
            return tuple(after[1:])
        if word == "-m" and following in _MODULES:
            return tuple(after[1:])
        if word == "-m" and following in _COMMAND_MODULES and after[1:2] == [_SERVE]:
            return tuple(after[2:])
        if word.endswith(_SCRIPTS):
            return tuple(after)
    return None


def is_server_image(reference: str) -> bool:
    """Whether an image's entry point is the server: vLLM's own ones, and copies of them."""
    repository = reference.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return _PROGRAM in repository.lower()


def release_of_image(reference: str) -> ImageRelease | None:
    """Return the release that an image's tag names; None where it names none, as ``latest``."""
    path, _, tag = reference.partition("@")[0].rpartition("/")[2].partition(":")
    found = _RELEASE.fullmatch(tag) if _PROGRAM in path.lower() else None
    if found is None or int(found[1]) > _LARGEST_MAJOR:
        return None
    version = EngineVersion(int(found[1]), int(found[2]), int(found[3] or 0))
    return ImageRelease(version, is_plain=_OTHER_BUILD.match(found[4]) is None)


def read_command(
    arguments: Sequence[str], environment: Mapping[str, str], where: str, release: EngineVersion
) -> StartCommand:
    """Return what the arguments of a server start.

    Args:
        arguments: the words after ``vllm serve``.
        environment: the variables of the process whose values are known.
        where: the place of the arguments, for messages.
        release: the release that is started.

    Raises:
        InvalidInput: a value that decides the memory cannot be read, or the engine does not take it.
    """
    return _Command([each for each in arguments if each != "--"], where, release).started(environment)


class _Command:
    """The arguments of a server while they become options."""

    def __init__(self, arguments: Sequence[str], where: str, release: EngineVersion) -> None:
        self._arguments, self._where, self._release = arguments, where, release
        recorded = table_for(release)
        self._is_recorded = recorded.release == release
        self._table = recorded if release >= recorded.release else table_with_older_flags()
        self._reading = read_words(arguments, self._table)

    def started(self, environment: Mapping[str, str]) -> StartCommand:
        strays, unknown = self._strays()
        notes = [*self._unknown_notes(unknown), *self._value_notes()]
        fields = dict(self._fields())
        if "config" in fields:
            notes.append(
                f"--config {as_written(fields['config'])}: the file is not read here, so its options are missing."
            )
        if strays:
            fields["model"] = strays[0]
        self._check_numbers(fields)
        options = options_of({}, fields, batched_tokens=None, are_all=False)
        self._check_cache(options.kv_precision, fields)
        unfollowed = (
            *(as_written(each) for each in options.unfollowed),
            *(as_written(self._arguments[each]) for each in unknown),
            *(as_written(each) for each in unfollowed_variables(environment)),
        )
        return StartCommand(
            engine=_PROGRAM,
            model=text_in(fields.get("model")),
            revision=text_in(fields.get("revision")),
            split=split_of({}, fields),
            options=replace(options, unfollowed=unfollowed, model_runner=named_runner(environment)),
            harmless=tuple(self._harmless(fields)),
            notes=tuple(notes),
            spread=self._is_spread(fields),
            fits_context=self._fits_context(),
            cache_word=text_in(fields.get("kv_cache_dtype")),
            conditions=tuple(self._conditions(fields)),
            unchecked=tuple(as_written(each) for each in unchecked_options(self._reading, self._table)),
        )

    def _strays(self) -> tuple[list[str], list[int]]:
        """Return the values that no flag takes, and the positions of unknown flags.

        The value after an unknown flag belongs to it, unless the model would be missing without it.
        """
        faults = {each.position: each.fault for each in self._reading.problems}
        unknown = [position for position, fault in faults.items() if fault is Fault.UNKNOWN]
        strays = [position for position, fault in sorted(faults.items()) if fault is Fault.STRAY]
        own = [position for position in strays if position - 1 not in unknown]
        if not own and self._reading.on("--model") is None:
            own = strays[:1]
        for position in own[1:]:
            self._refuse(self._where, self._arguments[position], _fix_of(self._reading, position))
        return [self._arguments[position] for position in own], unknown

    def _refuse(self, field: str, value: str, fix: str) -> None:
        expression = unresolved_in(value)
        if expression is not None:
            fix = f"The value of {expression} is not known here: write the value itself, or set it in {self._where}."
        raise InvalidInput(field, as_written(value), fix)

    def _unknown_notes(self, unknown: Sequence[int]) -> Iterator[str]:
        for position in unknown:
            yield f"{as_written(self._arguments[position])}: {_fix_of(self._reading, position)}"

    def _value_notes(self) -> Iterator[str]:
        """Refuse values that decide the memory and cannot be read. Yield what else the engine does not take."""
        for problem in (*self._reading.problems, *lacking(self._reading, self._table)):
            option = problem.option
            if problem.fault is not Fault.VALUE or option is None:
                continue
            name, value = option.names[0], self._arguments[problem.position]
            decides = _field(name) in READ or option.takes == "help" or "takes a value:" in problem.fix
            if option.names[0] == "--limit-mm-per-prompt" and self._release < SINCE[Feature.MEDIA_LIMITS]:
                continue  # image=2,video=0
            # A parser's name may be one that an image of the user's own knows.
            is_final = self._is_recorded and not option.registered and self._reading.on("--config") is None
            if is_final and unresolved_in(value) is None:
                self._refuse(f"{self._where}: {name}", value, problem.fix)
            if decides and (self._is_recorded or option.kind.removeprefix("maybe-") in _NUMERIC or option.is_switch):
                self._refuse(f"{self._where}: {name}", value, problem.fix)
            if unresolved_in(value) is None:
                yield f"{as_written(value)}: as {_TITLE} {self._table.release} takes it, {problem.fix}"

    def _fields(self) -> Iterator[tuple[str, str]]:
        for name, setting in self._reading.settings.items():
            text = _text_of(setting)
            if text is None:
                continue
            if _field(name) in READ and unresolved_in(text) is not None and _field(name) != "model":
                self._refuse(f"{self._where}: {name}", text, "")
            yield _field(name), text

    def _check_numbers(self, fields: Mapping[str, str]) -> None:
        """Refuse numbers with which no engine starts."""
        for name in _COUNTS:
            count = integer_in(fields.get(name))
            most = _MOST_GPUS if name in _DEGREES else _LARGEST_NUMBER
            if name in fields and (count is None or not 1 <= count <= most):
                self._refuse(self._flag(name), fields[name], f"Write a number from 1 to {most:,}.")
        share, offload = fields.get("gpu_memory_utilization"), fields.get("cpu_offload_gb")
        if share is not None and not 0 < (number_in(share) or 0) <= 1:
            fix = "Write the share of the GPU, more than 0 and at most 1, e.g. 0.92."
            self._refuse(self._flag("gpu_memory_utilization"), share, fix)
        if offload is not None and not 0 <= _or_less(number_in(offload)) <= _LARGEST_NUMBER:
            self._refuse(self._flag("cpu_offload_gb"), offload, "Write the GiB of each GPU, 0 or more.")
        group, layers = (integer_in(fields.get(each)) for each in ("offload_group_size", "offload_num_in_group"))
        if group is not None and 0 < group < (layers or 1):
            self._refuse(self._flag("offload_num_in_group"), str(layers), f"Write at most the group's {group} layers.")
        sequences, step = (integer_in(fields.get(each)) for each in ("max_num_seqs", "max_num_batched_tokens"))
        if sequences is not None and step is not None and step < sequences:
            fix = f"A step has a token for every sequence: write at least {sequences}, or lower --max-num-seqs."
            self._refuse(self._flag("max_num_batched_tokens"), str(step), fix)

    def _check_cache(self, precision: KvPrecision | None, fields: Mapping[str, str]) -> None:
        feature = None if precision is None else _CACHE_FEATURES.get(precision)
        since = None if feature is None else SINCE[feature]
        if since is not None and self._release < since:
            fix = f"{_TITLE} {self._release} cannot; use {since} or newer."
            self._refuse(self._flag("kv_cache_dtype"), fields["kv_cache_dtype"], fix)

    def _flag(self, name: str) -> str:
        return f"{self._where}: --{name.replace('_', '-')}"

    def _harmless(self, fields: Mapping[str, str]) -> Iterator[str]:
        for name in self._reading.settings:
            if _field(name) not in READ and not is_unfollowed_flag(name, fields.get(_field(name), "False")):
                yield name

    def _conditions(self, fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield what else decides whether the engine starts. A tokenizer of another repository has its own files."""
        for flag in CONDITIONAL:
            value = text_in(fields.get(_field(flag)))
            is_elsewhere = flag == "--tokenizer-mode" and fields.get("tokenizer") not in (None, fields.get("model"))
            if value is not None and not is_elsewhere:
                yield flag, value

    def _is_spread(self, fields: Mapping[str, str]) -> bool:
        """Whether further containers run parts of the same replica."""
        engines, local = (
            integer_in(fields.get("data_parallel_size")),
            integer_in(fields.get("data_parallel_size_local")),
        )
        by_ray = text_in(fields.get("distributed_executor_backend")) == "ray"
        fewer_here = local is not None and local != (engines or 1)
        return by_ray or fewer_here or (integer_in(fields.get("nnodes")) or 1) > 1 or fields.get("headless") == "True"

    def _fits_context(self) -> bool:
        given = self._reading.settings.get("--max-model-len")
        return given is not None and given.value.strip().lower() in _CHOOSES


def _or_less(number: float | None) -> float:
    """Return a number, or one below all that are allowed where there is none."""
    return -1 if number is None else number


def _fix_of(reading: Reading, position: int) -> str:
    return next(each.fix for each in reading.problems if each.position == position)


def _field(name: str) -> str:
    return name.lstrip("-").replace("-", "_")


def _text_of(setting: Setting) -> str | None:
    """Return a value as a log prints it; None for nothing, and for a context that the engine chooses."""
    kind = setting.option.kind.removeprefix("maybe-")
    if setting.option.is_switch:
        return str(setting.is_on)
    if not setting.is_on:
        return None
    value = setting.value
    if kind == "size-or-auto" and value.strip().lower() in _CHOOSES:
        return None
    if kind in ("size", "size-or-auto", "whole"):
        size = size_in(value)
        return value if size is None else str(size)
    if kind == "number":
        return _decimal(value)
    return _printed(value) if kind in ("json", "object", "text-or-json") else value


def _decimal(value: str) -> str:
    try:
        found = float(value)
        return format(Decimal(value.strip()), "f") if abs(found) < _LARGEST_NUMBER else value
    except (ValueError, ArithmeticError):
        return value


def _printed(value: str) -> str:
    """Return JSON as Python prints it, so that it is read as in a log."""
    try:
        return str(json.loads(value))
    except (ValueError, RecursionError):
        return value
