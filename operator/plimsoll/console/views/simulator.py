"""The simulator's form and the answer to it, from the document of ``plimsoll simulate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from plimsoll.console.drawing.timeline import Axis, Curve, area, line, steps
from plimsoll.console.views.faults import FieldName
from plimsoll.console.views.words import UNKNOWN, Fact, count, gib, percent
from plimsoll.performance.worth import FIRST_STARTUP_SECONDS
from plimsoll.rebalance.state.policy import Mode
from plimsoll.simulation.result import Happening, clock, evenly
from plimsoll.simulation.workload import PRESETS, Preset

Body = Mapping[str, Any]

_MOST_ROWS = 25
_MILLISECONDS = 1000
_NUMBER_WIDTH = 16.0

_KINDS = {
    Happening.CACHE_FULL: ("\u25b2", "the KV cache is full", "bad"),
    Happening.SLOTS_FULL: ("\u25b2", "the sequence slots are full", "bad"),
    Happening.PREEMPTION: ("\u25b2", "preemption", "bad"),
    Happening.GAVE_UP: ("\u2717", "clients give up", "bad"),
    Happening.LOST: ("\u2717", "requests are lost", "bad"),
    Happening.DECISION: ("\u2192", "the policy acts", "note"),
    Happening.PROPOSAL: ("?", "the policy proposes", "note"),
    Happening.HELD_BACK: ("\u2026", "the policy waits", "warn"),
    Happening.SERVES: ("\u2713", "a replica serves", "good"),
}


@dataclass(frozen=True, slots=True)
class SimulatorField:
    """A field of the form: its name in the URL, its words, the option of the command, and how to read its value."""

    name: str
    words: str
    option: str
    usual: Callable[[Preset], object]
    step: str = "1"


FIELDS = (
    SimulatorField(
        "rate", "Requests a second", "--requests-per-second", lambda it: it.workload.requests_per_second, "any"
    ),
    SimulatorField("prompt", "Prompt tokens, mean", "--prompt", lambda it: it.workload.prompt_tokens),
    SimulatorField("output", "Answer tokens, mean", "--output-tokens", lambda it: it.workload.output_tokens),
    SimulatorField("spread", "Spread of lengths", "--spread", lambda it: it.workload.spread, "any"),
    SimulatorField("shared", "Shared prefix tokens", "--shared-prefix", lambda it: it.workload.shared_prefix_tokens),
    SimulatorField("burst", "Burst: times the rate", "--burst", lambda it: it.workload.burst_factor, "any"),
    SimulatorField("burst_seconds", "Burst: seconds", "--burst-seconds", lambda it: it.workload.burst_seconds, "any"),
    SimulatorField(
        "burst_every",
        "Burst: every so many seconds",
        "--burst-every",
        lambda it: it.workload.burst_every_seconds,
        "any",
    ),
    SimulatorField("minutes", "Minutes", "--minutes", lambda it: it.workload.minutes, "any"),
    SimulatorField("tp", "GPUs of a replica", "--tp", lambda _: "fewest that fit"),
    SimulatorField("context-length", "Context tokens", "--context-length", lambda _: "twice the mean"),
    SimulatorField("concurrency", "Requests at once of a replica", "--concurrency", lambda _: 16),
    SimulatorField("replicas", "Replicas at the beginning", "--replicas", lambda _: 1),
    SimulatorField("min", "Fewest replicas", "--min-replicas", lambda _: 1),
    SimulatorField("max", "Most replicas", "--max-replicas", lambda _: 10),
    SimulatorField("startup", "Start-up seconds", "--startup", lambda _: f"{FIRST_STARTUP_SECONDS:g}", "any"),
    SimulatorField("patience", "Clients wait, seconds", "--patience", lambda _: 60, "any"),
    SimulatorField("seed", "Seed", "--seed", lambda _: 1),
)
"""The fields that hold a number."""

MODES = tuple(each.value for each in Mode)

GROUPS = (
    ("Requests", ("rate", "prompt", "output", "spread", "shared")),
    ("Bursts", ("burst", "burst_seconds", "burst_every")),
    ("Replicas", ("tp", "context-length", "concurrency", "replicas", "min", "max", "startup")),
    ("The run", ("minutes", "patience", "seed")),
)
"""The fields in groups, by their names."""

_IN_SPECS = {"contextLength": "context-length", "minReplicas": "min", "maxReplicas": "max", "tensorParallel": "tp"}
"""The fields of the form, by their names in messages."""

_LABELS = {each.name: FieldName(each.name, each.words) for each in FIELDS}

NAMES: Mapping[str, FieldName] = {
    "model": FieldName("model", "Model"),
    "gpu": FieldName("gpu", "GPU type"),
    **{each.option.removeprefix("--"): _LABELS[each.name] for each in FIELDS},
    **{each: _LABELS[name] for each, name in _IN_SPECS.items()},
}
"""The fields by what the command's messages call them."""


@dataclass(frozen=True, slots=True)
class Input:
    """A field with what was typed; ``usual`` is what holds if it is empty."""

    field: SimulatorField
    value: str
    usual: str


@dataclass(frozen=True, slots=True)
class PresetLink:
    """A preset as a link that keeps the model and the GPU type."""

    preset: Preset
    url: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class SimulatorForm:
    """The form as it was typed. ``arguments`` are those of ``plimsoll simulate``; empty without a model and a GPU."""

    model: str
    gpu: str
    mode: str
    preset: Preset
    groups: tuple[tuple[str, tuple[Input, ...]], ...]
    choices: tuple[PresetLink, ...]
    arguments: tuple[str, ...]


def form_of(path: str, first: Callable[[str], str]) -> SimulatorForm:
    """Return the form of an address. ``first`` gives the first value of a parameter, or nothing."""
    model, gpu = first("model"), first("gpu")
    preset = next((each for each in PRESETS if each.name == first("preset")), PRESETS[0])
    mode = first("mode") if first("mode") in MODES else Mode.AUTO.value
    inputs = {each.name: Input(each, first(each.name), _plain(each.usual(preset))) for each in FIELDS}
    groups = tuple((title, tuple(inputs[name] for name in names)) for title, names in GROUPS)
    kept = {name: value for name, value in (("model", model), ("gpu", gpu)) if value}
    choices = tuple(
        PresetLink(each, f"{path}?{urlencode({**kept, 'preset': each.name})}", each is preset) for each in PRESETS
    )
    arguments = tuple(_arguments(model, gpu, mode, preset, tuple(inputs.values()))) if model and gpu else ()
    return SimulatorForm(model, gpu, mode, preset, groups, choices, arguments)


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else f"{value}"


def _arguments(model: str, gpu: str, mode: str, preset: Preset, inputs: Sequence[Input]) -> Iterator[str]:
    """Yield the arguments. Each value is part of its option's word, so that none is read as another option."""
    yield from ("simulate", f"--gpu={gpu}", f"--preset={preset.name}", f"--mode={mode}")
    yield from (f"{each.field.option}={each.value}" for each in inputs if each.value)
    yield from ("--", model)


@dataclass(frozen=True, slots=True)
class Chart:
    """One drawing with its sentence. ``top`` and ``bottom`` are the words at the ends of its scale."""

    name: str
    sentence: str
    top: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class EventMark:
    """An event in the list, and where it is drawn. ``label`` is empty if another number is too near."""

    number: int
    label: str
    at: float
    time: str
    symbol: str
    word: str
    kind: str
    sentence: str
    reason: str


@dataclass(frozen=True, slots=True)
class MomentLine:
    """One moment as text."""

    time: str
    kv_cache_in_use: str
    tokens: str
    running: str
    waiting: str
    preemptions: str
    replicas: str
    ttft: str
    tpot: str


@dataclass(frozen=True, slots=True)
class SimulatorAnswer:
    """The answer: one sentence first, then drawings, events and text."""

    summary: str
    release: str
    axis: Axis
    charts: tuple[Chart, ...]
    marks: tuple[EventMark, ...]
    lines: tuple[MomentLine, ...]
    facts: tuple[Fact, ...]
    totals: tuple[Fact, ...]


def answer_of(document: Body) -> SimulatorAnswer:
    """Return the answer from the document of ``plimsoll simulate``."""
    moments: Sequence[Body] = document["moments"]
    axis = Axis(float(moments[-1]["at"]))
    return SimulatorAnswer(
        summary=document["summary"],
        release=document["release"],
        axis=axis,
        charts=tuple(_charts(axis, moments)),
        marks=tuple(_marks(axis, document["events"])),
        lines=tuple(_line(each) for each in evenly(moments, _MOST_ROWS)),
        facts=tuple(_facts(document["input"])),
        totals=tuple(_totals(document["totals"])),
    )


def _charts(axis: Axis, moments: Sequence[Body]) -> Iterator[Chart]:
    at = [float(each["at"]) for each in moments]
    kv_cache_in_use, fullest = ([float(each[name]) for each in moments] for name in ("kv_cache_in_use", "fullest"))
    yield Chart(
        "KV cache in use",
        f"Of all replicas' KV cache at most {percent(max(kv_cache_in_use))} is in use, of one replica's at most "
        f"{percent(max(fullest))}.",
        "100 %",
        (area(axis, at, kv_cache_in_use, 1, "kv"), line(axis, at, fullest, 1, "fullest")),
    )
    slots = [each["running"] / each["sequence_slots"] if each["sequence_slots"] else 0.0 for each in moments]
    most = max(moments, key=lambda each: int(each["running"]))
    yield Chart(
        "Sequence slots: requests that run",
        f"At most {count(most['running'])} requests run at the same time, of {count(most['sequence_slots'])} that may.",
        "100 %",
        (area(axis, at, slots, 1, "weights"),),
    )
    waiting = [int(each["waiting"]) for each in moments]
    scale = max(1, *waiting)
    yield Chart(
        "Queue: requests that wait",
        f"At most {count(max(waiting))} requests wait.",
        count(scale),
        (area(axis, at, waiting, scale, "queue"),),
    )
    wanted, ready = [int(each["wanted"]) for each in moments], [int(each["ready"]) for each in moments]
    top = max(1, *wanted, *ready)
    yield Chart(
        "Replicas",
        f"{count(wanted[0])} wanted at the beginning, {count(wanted[-1])} at the end, at most {count(max(wanted))}.",
        count(top),
        (steps(axis, at, ready, top, "ready"), steps(axis, at, wanted, top, "wanted")),
    )


def _marks(axis: Axis, events: Sequence[Body]) -> Iterator[EventMark]:
    free = 0.0
    for number, event in enumerate(events, 1):
        symbol, word, kind = _KINDS[Happening(event["kind"])]
        at = axis.at(float(event["at"]))
        label = f"{number}" if at >= free else ""
        free = at + _NUMBER_WIDTH if label else free
        time = clock(float(event["at"]))
        yield EventMark(number, label, at, time, symbol, word, kind, event["sentence"], event["reason"])


def _line(moment: Body) -> MomentLine:
    return MomentLine(
        time=clock(float(moment["at"])),
        kv_cache_in_use=percent(moment["kv_cache_in_use"]),
        tokens=f"{count(moment['held_tokens'])} / {count(moment['hold_tokens'])}",
        running=f"{count(moment['running'])} / {count(moment['sequence_slots'])}",
        waiting=count(moment["waiting"]),
        preemptions=count(moment["preemptions"]),
        replicas=f"{count(moment['ready'])} / {count(moment['wanted'])}",
        ttft=_times(moment["ttft_seconds"]),
        tpot=_times(moment["tpot_seconds"]),
    )


def _times(spread: Body | None) -> str:
    if spread is None:
        return UNKNOWN
    return f"{spread['median'] * _MILLISECONDS:,.0f} / {spread['p95'] * _MILLISECONDS:,.0f}"


def _facts(asked: Body) -> Iterator[Fact]:
    load = asked["workload"]
    yield Fact("Replica", f"{asked['model']} on {count(asked['gpus_per_replica'])} \u00d7 {asked['gpu']}")
    longest = asked["context_tokens"] * asked["kv_bytes_per_token_and_gpu"]
    yield Fact(
        "Memory of each GPU",
        f"weights {gib(asked['weights_bytes_per_gpu'])} GiB, KV cache of a request at full context {gib(longest)} GiB",
    )
    yield Fact("KV cache of a replica", f"{count(asked['kv_tokens'])} tokens, by the estimate")
    step = count(asked["max_batched_tokens"])
    yield Fact("Sequence slots of a replica", f"{count(asked['max_num_seqs'])}, in steps of {step} tokens")
    yield Fact("Context", f"{count(asked['context_tokens'])} tokens")
    yield Fact("Requests", f"{load['requests_per_second']:g} a second for {load['minutes']:g} min{_burst(load)}")
    yield Fact(
        "Lengths",
        f"prompts of {count(load['prompt_tokens'])} tokens ({count(load['shared_prefix_tokens'])} shared), answers of "
        f"{count(load['output_tokens'])}, spread {load['spread']:g}",
    )
    yield Fact(
        "Policy",
        f"{asked['mode']}, {asked['min_replicas']} to {asked['max_replicas']} replicas, window "
        f"{asked['window_seconds']} s, cool-down {asked['cooldown_seconds']} s",
    )
    yield Fact("Times", f"{asked['startup_seconds']:g} s to start; clients wait {asked['patience_seconds']:g} s")
    yield Fact("Seed", f"{asked['seed']}")


def _burst(load: Body) -> str:
    if load["burst_factor"] <= 1:
        return ", without bursts"
    return (
        f", {load['burst_factor']:g} times as many for {load['burst_seconds']:g} s every "
        f"{load['burst_every_seconds']:g} s"
    )


def _totals(totals: Body) -> Iterator[Fact]:
    yield Fact("Requests", count(totals["arrived"]))
    yield Fact("Served", count(totals["served"]))
    yield Fact("Gave up", count(totals["gave_up"]))
    yield Fact("Lost with a removed replica", count(totals["lost"]))
    yield Fact("Under way at the end", count(totals["under_way"]))
    yield Fact("Preemptions", count(totals["preemptions"]))
    yield Fact("First token, median / 95 %", f"{_times(totals['ttft_seconds'])} ms")
    yield Fact("Later tokens, median / 95 %", f"{_times(totals['tpot_seconds'])} ms")
