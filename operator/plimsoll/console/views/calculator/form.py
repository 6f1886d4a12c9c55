"""The calculator's form: the parameters of a URL as the options of ``plimsoll estimate``, and as a page shows them.

The options of the calculator: those of ``plimsoll estimate``, by the same names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from plimsoll.adapters.catalog import catalogued_models, load_gpu_types
from plimsoll.api.bounds import DEFAULT_ENGINE_VERSION, ENGINE_HELP
from plimsoll.cli.answers.rows import types_in_order
from plimsoll.cli.questions.asked import TypedOptions
from plimsoll.cli.questions.names import meant_types
from plimsoll.console.views.faults import FieldFault, FieldName
from plimsoll.console.views.paging import Query, first_of
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import SpeculationMethod
from plimsoll.domain.errors import InvalidInput


class OptionKind(StrEnum):
    """The form of an option's value."""

    NUMBER = "number"
    TEXT = "text"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class CalculatorOption:
    """One option. ``least`` and ``most`` bound a number.

    ``default`` holds if the field is empty, and stands in it; without one an ``example`` does.
    """

    name: str
    label: str
    help: str
    kind: OptionKind = OptionKind.TEXT
    least: int = 1
    most: int | None = None
    default: str = ""
    choices: tuple[str, ...] = ()
    example: str = ""

    @property
    def placeholder(self) -> str:
        """The words in the empty field."""
        return self.default or (f"e.g. {self.example}" if self.example else "")

    @property
    def flag(self) -> str:
        """The option as the command line writes it."""
        return f"--{self.name}"


def _whole_number(
    name: str, label: str, text: str, default: str = "", least: int = 1, most: int | None = None, example: str = ""
) -> CalculatorOption:
    return CalculatorOption(name, label, text, OptionKind.NUMBER, least, most, default, example=example)


FIRST = (
    _whole_number("context-length", "Context", "Longest request in tokens.", "8192, or the model's own"),
    _whole_number("concurrency", "Requests at once", "Requests at the same time.", "16"),
    CalculatorOption("precision", "Weights", "Format of the weights.", default="auto", choices=("bf16", "fp16", "fp8")),
    CalculatorOption(
        "kv-precision",
        "KV cache",
        "Format of the KV cache.",
        default="auto",
        choices=("bf16", "fp16", "fp8", "nvfp4", "int8", "int4", "fp8_per_token_head"),
    ),
)
"""The options that most questions need."""

MORE = (
    _whole_number("tp", "Tensor parallel", "GPUs that share each layer.", "the fewest that fit", most=64),
    _whole_number("pp", "Pipeline stages", "With tensor parallel.", "1", most=64),
    _whole_number("dp", "Engines", "Engines that share experts, with tensor parallel.", "1", most=64),
    CalculatorOption("ep", "Expert parallelism", "Whole experts on each GPU, with tensor parallel.", OptionKind.FLAG),
    _whole_number("prompt", "Mean prompt", "Tokens, with the mean output: sizes for the expected load.", example="900"),
    _whole_number("output-tokens", "Mean output", "Tokens, with the mean prompt.", example="100"),
    _whole_number("shared-prefix", "Shared prefix", "Tokens that prompts begin with alike.", example="600"),
    _whole_number("shared-percent", "Sharing requests", "Percent of the requests with that prefix.", "100", most=100),
    _whole_number("utilization", "Utilization", "Percent of usable memory that the engine may take.", "92", 10, 98),
    _whole_number("batched-tokens", "Batched tokens", "Tokens of an engine step.", "by the GPU", 64),
    CalculatorOption("engine", "Engine", ENGINE_HELP, default=DEFAULT_ENGINE_VERSION),
    CalculatorOption(
        "against-engine", "Another engine", "What it would hold, and how fast, next to the engine.", example="sglang"
    ),
    CalculatorOption("cpu-offload", "CPU offload", "Weights of each GPU to keep in host memory.", example="8Gi"),
    CalculatorOption("host-memory", "Host cache", "Host memory for KV cache of finished requests.", example="200Gi"),
    CalculatorOption("lora", "LoRA", "Slots and their largest rank.", example="4 16"),
    CalculatorOption(
        "speculate",
        "Speculation",
        "Method and tokens a step.",
        choices=tuple(f"{method} 4" for method in SpeculationMethod),
        example="Ngram 4",
    ),
    CalculatorOption(
        "draft", "Draft model", "A catalogued model, for speculation with Eagle or Draft.", example="owner/name"
    ),
    CalculatorOption(
        "against-price",
        "Price of an API",
        "Dollars for a million tokens of prompts and outputs, with the mean lengths: from when on does a replica pay?",
        example="0.15,0.60",
    ),
    _whole_number("requests-per-day", "Requests a day", "What a day costs, with the price of an API.", example="2000"),
    _whole_number("busy-hours", "Busy hours", "Hours of a day in which these requests come.", "24", most=24),
    _whole_number("startup", "Start-up", "Seconds of a start of a replica.", "300", most=86_400),
    CalculatorOption("eager", "No CUDA graphs", "Runs without CUDA graphs.", OptionKind.FLAG),
    CalculatorOption("text-only", "Text only", "Without the vision or audio tower.", OptionKind.FLAG),
)
"""The other options."""

OPTIONS = {each.name: each for each in (*FIRST, *MORE)}

_IN_SPECS = {
    "contextLength": "context-length",
    "precision": "precision",
    "gpuMemoryUtilizationPercent": "utilization",
    "maxBatchedTokens": "batched-tokens",
    "cpuOffload": "cpu-offload",
    "hostMemory": "host-memory",
    "version": "engine",
    "tensorParallel": "tp",
    "textOnly": "text-only",
    "enforceEager": "eager",
    "maxAdapters": "lora",
    "maxRank": "lora",
    "method": "speculate",
    "spec.workload.sharedPrefix.tokens": "shared-prefix",
}
"""The options of some fields, by their names in messages about the manifest of a form."""

NAMES: Mapping[str, FieldName] = {
    "model": FieldName("model", "Model"),
    "config": FieldName("config", "config.json"),
    "gpu": FieldName("gpu", "GPU"),
    **{name: FieldName(name, each.label) for name, each in OPTIONS.items()},
    **{path: FieldName(name, OPTIONS[name].label) for path, name in _IN_SPECS.items()},
}
"""The fields by what messages call them."""


_MOST_DIGITS = 12
_MOST_DRAFTED = 32
_WORDS = 2
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PASTED = "pasted-model"


@dataclass(frozen=True, slots=True)
class CalculatorForm:
    """A form that was filled in: a model's name or its configuration, and the options.

    ``config`` is None if no configuration was pasted; then ``model`` is a name, else a name of the user's own.
    ``notes`` say how names of GPU types were read.
    """

    model: str
    config: Mapping[str, Any] | None
    asked: TypedOptions
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The name of the file that the command line reads a pasted configuration from."""
        return f"{self.model}.json"


def read_form(query: Query) -> CalculatorForm:
    """Return the form of a URL.

    Raises:
        InvalidInput: a field cannot be used.
    """
    config = _config(first_of(query, "config"))
    meant = meant_types([each for each in query.get("gpu", ()) if each.strip()])
    return CalculatorForm(_model(query, pasted=config is not None), config, _asked(query, meant.types), meant.notes)


def is_filled(query: Query) -> bool:
    """Whether anything is asked."""
    return bool(first_of(query, "model") or first_of(query, "config"))


def _model(query: Query, *, pasted: bool) -> str:
    if not pasted:
        return first_of(query, "model")
    name = first_of(query, "model") or _PASTED
    if _NAME.fullmatch(name) is None:
        fix = "Leave it empty, or write a name for the pasted configuration: letters, digits, dots and dashes."
        raise InvalidInput("model", name, fix)
    return name


def _config(text: str) -> Mapping[str, Any] | None:
    if not text:
        return None
    fix = "Paste one config.json: a JSON object in braces."
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput("config", text, fix) from error
    if not isinstance(value, dict):
        raise InvalidInput("config", text, fix)
    return value


def _asked(query: Query, gpus: tuple[str, ...]) -> TypedOptions:
    tp, pp, dp = (_number(query, name) for name in ("tp", "pp", "dp"))
    ep = _flag(query, "ep")
    _refuse_alone(tp, pp, dp, ep=ep)
    return TypedOptions(
        context_length=_number(query, "context-length"),
        concurrency=_number(query, "concurrency"),
        precision=first_of(query, "precision") or None,
        kv_precision=first_of(query, "kv-precision") or None,
        engine=first_of(query, "engine") or None,
        utilization=_number(query, "utilization"),
        batched_tokens=_number(query, "batched-tokens"),
        prompt=_number(query, "prompt"),
        output=_number(query, "output-tokens"),
        shared_prefix=_number(query, "shared-prefix"),
        shared_percent=_number(query, "shared-percent"),
        eager=_flag(query, "eager"),
        text_only=_flag(query, "text-only"),
        cpu_offload=first_of(query, "cpu-offload") or None,
        host_memory=first_of(query, "host-memory") or None,
        lora=_lora(first_of(query, "lora")),
        speculate=_speculate(first_of(query, "speculate")),
        draft=first_of(query, "draft") or None,
        against_engine=first_of(query, "against-engine") or None,
        against_price=first_of(query, "against-price") or None,
        requests_per_day=_number(query, "requests-per-day"),
        busy_hours=_number(query, "busy-hours"),
        startup=_number(query, "startup"),
        gpus=gpus,
        split=None if tp is None else Split(tp, pp or 1, dp or 1, expert_parallel=ep or (dp or 1) > 1),
    )


def _refuse_alone(tp: int | None, pp: int | None, dp: int | None, *, ep: bool) -> None:
    """Refuse parts of a split that need ``--tp``, in the words of the command."""
    alone = [("--ep", True)] if ep else [(name, value) for name, value in (("--dp", dp), ("--pp", pp)) if value]
    counted = [(name, value) for name, value in alone if value is True or (value or 0) > 1]
    if tp is None and counted:
        raise InvalidInput(*counted[0], "Name --tp as well.")


def _flag(query: Query, name: str) -> bool:
    return _is_on(first_of(query, name))


def _number(query: Query, name: str) -> int | None:
    text, option = first_of(query, name), OPTIONS[name]
    return None if not text else _within(text, option)


def _within(text: str, option: CalculatorOption) -> int:
    value = _whole(text)
    if value is None or value < option.least or (option.most is not None and value > option.most):
        raise InvalidInput(option.flag, text, f"Write a whole number {_range(option.least, option.most)}.")
    return value


def _whole(text: str) -> int | None:
    plain = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if plain else None


def _range(least: int, most: int | None) -> str:
    return f"of at least {least}" if most is None else f"from {least} to {most}"


def _lora(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    numbers = [_whole(part) for part in text.split()]
    slots, rank = numbers if len(numbers) == _WORDS else (None, None)
    if slots is None or rank is None:
        raise InvalidInput("--lora", text, "Write the slots and their largest rank, e.g. 4 16.")
    return slots, rank


def _speculate(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    method, _, number = text.partition(" ")
    known = {each.value.casefold(): each.value for each in SpeculationMethod}
    tokens = _whole(number.strip())
    if method.casefold() not in known or tokens is None or not 1 <= tokens <= _MOST_DRAFTED:
        names = ", ".join(known.values())
        fix = f"Write a method ({names}) and tokens of a step from 1 to {_MOST_DRAFTED}, e.g. Ngram 4."
        raise InvalidInput("--speculate", text, fix)
    return known[method.casefold()], tokens


def given(query: Query) -> tuple[tuple[CalculatorOption, str], ...]:
    """Return the options that a URL sets, in the order of the form, with their values as written."""
    found = ((option, first_of(query, name)) for name, option in OPTIONS.items())
    return tuple(
        (option, text) for option, text in found if text and (option.kind is not OptionKind.FLAG or _is_on(text))
    )


def _is_on(text: str) -> bool:
    return text.lower() not in ("", "0", "false", "off", "no")


@dataclass(frozen=True, slots=True)
class CalculatorField:
    """An option and the text in its field."""

    option: CalculatorOption
    value: str


@dataclass(frozen=True, slots=True)
class FormView:
    """The form. ``gpus`` are the types asked for as written; ``types`` and ``models`` are all that can be chosen.

    ``opens_more`` and ``opens_config`` say whether a folded part holds a value.
    """

    model: str
    config: str
    gpus: tuple[str, ...]
    first: tuple[CalculatorField, ...]
    more: tuple[CalculatorField, ...]
    models: tuple[str, ...]
    types: tuple[str, ...]
    fault: FieldFault | None = None

    @property
    def opens_more(self) -> bool:
        """Whether one of the other options is set, or wrong."""
        faulty = "" if self.fault is None else self.fault.field
        return any(each.value or each.option.name == faulty for each in self.more)


def form_view(query: Query, owned: Collection[str] = ()) -> FormView:
    """Return the form with the values of a URL, right or wrong. ``owned`` are the GPU types that the cluster has."""
    return FormView(
        model=first_of(query, "model"),
        config=first_of(query, "config"),
        gpus=tuple(each.strip() for each in query.get("gpu", ()) if each.strip()),
        first=tuple(CalculatorField(each, first_of(query, each.name)) for each in FIRST),
        more=tuple(CalculatorField(each, first_of(query, each.name)) for each in MORE),
        models=catalogued_models(),
        types=tuple(gpu.name for gpu in types_in_order(load_gpu_types(), owned)),
    )
