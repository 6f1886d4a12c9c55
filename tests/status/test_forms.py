"""Every value of a status is read back as it was written, and no description forgets a field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll import __version__
from plimsoll.api.bounds import MOST_CONCURRENCY
from plimsoll.api.v1alpha1.base import LARGEST_BOUND
from plimsoll.api.v1alpha1.status import PoolStatus, RehomingStatus, StatusModel
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.decisions.observations import EngineKind, Observation, Witness
from plimsoll.domain.decisions.outcomes import Split, Target
from plimsoll.domain.engines.engine_choice import MOST_HOST_CACHE_BYTES, EngineVersion, StepLimits
from plimsoll.domain.engines.images import PlatformSource
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.engines.registry import ENGINES
from plimsoll.placement.demands.clocks import EarlierSettings
from plimsoll.placement.demands.failed_moves import Delay
from plimsoll.placement.demands.pools import Pool, PoolState, pool_name
from plimsoll.placement.demands.rehoming import Rehoming
from plimsoll.placement.options.total_load import Size
from plimsoll.rebalance.inbox import AnsweredProposals, StandingRejection
from plimsoll.rebalance.law.spread import Spread
from plimsoll.rebalance.state.history import (
    REPLACE_REASONS,
    ROOM_REASONS,
    AdditionResult,
    Called,
    ChangeKind,
    ChangeRecord,
    Verdict,
)
from plimsoll.rebalance.state.memory import Learned
from plimsoll.rebalance.state.replacement import Replacement
from plimsoll.rebalance.state.room import Leaving, RoomOrder
from plimsoll.status import writing
from plimsoll.status.record import decisions, loop, observations, places
from plimsoll.status.record.forms import Field, Form, Unusable, number, word
from plimsoll.status.writing import document_of
from tests.support.tables import examples

LONGEST_SECONDS = 86_400.0
MOST_TIMES = 99
MOST_AVOIDED = 16
MAX_CHANGES = 250
MOST_DRAIN_SECONDS = 3600
MOST_REPLICAS = 1000

MODULES: tuple[ModuleType, ...] = (decisions, loop, observations, places, writing)
FORMS: Mapping[str, Form[Any]] = {
    name: each for module in MODULES for name, each in vars(module).items() if isinstance(each, Form) and each.entry
}

Drawn = dict[str, st.SearchStrategy[Any]]


def several(one: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(one, max_size=most).map(tuple)


def optional(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | one


texts, some_text = st.text(max_size=64), st.text(min_size=1, max_size=64)
flags = st.booleans()
whole = st.integers(-LARGEST_BOUND, LARGEST_BOUND)
counts = st.integers(0, LARGEST_BOUND)
times = st.integers(0, 4_000_000_000).map(float)
splits = st.builds(Split, *3 * (st.integers(1, 4),), expert_parallel=flags, context_parallel=st.just(1))
replicas = st.integers(0, MOST_REPLICAS)
sequences = st.integers(1, MOST_CONCURRENCY)
steps = st.integers(1, LARGEST_BOUND)
limits = st.builds(StepLimits, st.just(0) | steps, st.just(0) | sequences)
known_limits = st.builds(StepLimits, steps, steps)
drains = st.integers(1, MOST_DRAIN_SECONDS)
slowness = st.integers(34, 300).map(lambda percent: percent / 100)
figures = optional(st.integers(1, LARGEST_BOUND).map(float))
place: Drawn = {"gpu_type": texts, "split": splits}
counts = st.integers(0, LARGEST_BOUND)
called: Drawn = {
    "figure": texts,
    "value": counts,
    "arrivals": counts,
    "served": counts,
    "seconds": counts,
    "read_tokens": counts,
}
result: Drawn = {
    "verdict": st.sampled_from(Verdict),
    "at": times,
    "in_a_row": replicas,
    "value": optional(counts),
    "words": texts,
}
marks: Drawn = {
    "at": times,
    "kind": st.sampled_from(ChangeKind),
    "reason": texts,
    "replicas": optional(whole),
    "added": replicas,
    "called": optional(st.builds(Called, **called)),
    "result": optional(st.builds(AdditionResult, **result)),
    "engine": texts,
}
labels = st.tuples(st.text(min_size=1, max_size=9).filter(lambda key: "=" not in key), some_text)
earlier: Drawn = {
    "pool": texts,
    "limits": st.builds(StepLimits, st.just(0) | steps, sequences),
    "drain_seconds": optional(drains),
    "inputs": texts,
}
ratios = st.integers(25, 1000).map(lambda percent: percent / 100)
learned: Drawn = {
    "pool": texts,
    "engine": texts,
    "slowness": slowness,
    "startup_seconds": figures,
    "most_work": figures,
    "output_tokens": figures,
    "others": several(st.tuples(texts, slowness)),
    "dispersion": st.integers(1, 1000).map(lambda percent: percent / 100),
    "spread": st.one_of(
        st.just(Spread()),
        st.builds(Spread, st.sampled_from([50, 95, 99]), ratios, optional(ratios)),
        st.builds(Spread, st.sampled_from([50, 95, 99]), optional(ratios), ratios),
    ),
}
replacement: Drawn = {
    **dict.fromkeys(("pod", "node", "whom"), texts),
    "reason": st.sampled_from([*REPLACE_REASONS, *ROOM_REASONS]),
    "began": times,
    "strays": several(texts),
}
leaving: Drawn = {"pod": texts, "node": texts, "ends": flags}
room: Drawn = {
    **dict.fromkeys(("proposal", "basis", "approval"), texts),
    "generation": whole,
    "began": times,
    "leaving": several(st.builds(Leaving, **leaving)),
    "gone": optional(times),
}
refusal: Drawn = {"proposal": texts, "by": texts, "reason": texts, "until": times, "generation": whole}
size: Drawn = {
    "replicas": whole,
    "concurrency": whole,
    "places": several(texts),
    "hourly_price": optional(texts),
    "missing": whole,
}
targets = st.builds(
    Target,
    some_text,
    splits,
    labels,
    st.just("nvidia.com/gpu"),
    several(labels).map(lambda found: tuple(sorted(set(found)))),
    optional(st.sampled_from(CapacityType)),
    several(some_text, MOST_AVOIDED).map(lambda names: tuple(sorted(names))),
).map(lambda each: replace(each, other_labels=()) if each.selector in each.other_labels else each)
kinds = st.builds(
    EngineKind,
    texts,
    st.sampled_from(Precision),
    st.sampled_from(KvPrecision),
    texts,
    st.builds(EngineVersion, *3 * (st.integers(0, 99),)),
    splits,
    texts,
    some_text,
    texts,
)

VALUES: Mapping[str, Drawn] = {
    "DECISION": {
        **dict.fromkeys(("id", "at", "placed", "replaced", "solver"), texts),
        "gap_permille": optional(whole),
    },
    "SIZE": {
        "replicas": st.integers(1, MOST_REPLICAS),
        "concurrency": sequences,
        "spec": texts,
        "options": several(st.builds(Size, **size)),
    },
    "CALLED": called,
    "RESULT": result,
    "MARK": marks,
    "LEARNED": learned,
    "REPLACEMENT": replacement,
    "LEAVING": leaving,
    "ROOM_ORDER": room,
    "REFUSAL": refusal,
    "REBALANCING": {
        **dict.fromkeys(("decision", "reason", "message"), texts),
        **{name: optional(texts) for name in ("proposal", "last_change", "diagnosis", "proposal_id")},
        "base_replicas": optional(replicas),
        "target_replicas": optional(replicas),
        "changes": several(st.builds(ChangeRecord, **marks), MAX_CHANGES // 50),
        "learned": optional(st.builds(Learned, **learned)),
        "replacing": optional(st.builds(Replacement, **replacement)),
        "room": optional(st.builds(RoomOrder, **room)),
        "approved": flags,
        "answered": st.builds(AnsweredProposals, several(st.builds(StandingRejection, **refusal)), several(texts)),
        "hints": several(texts),
    },
    "MOVE": {"pools": several(texts), "began": times, "due": st.integers(0, 86_400), "spec": texts},
    "FAILED_MOVE": {
        **place,
        "at": times,
        "until": st.integers(0, 3600),
        "times": st.integers(1, MOST_TIMES),
        "delay": st.builds(Delay, st.sampled_from(["EngineCrashed", "ImageNotFound"]), texts),
        "spec": texts,
        "limits": limits,
        "engine": st.sampled_from(sorted(ENGINES)),
    },
    "EARLIER": earlier,
    "RETUNE": {
        "before": several(st.builds(EarlierSettings, **earlier)),
        "began": times,
        "each": st.integers(1, int(LONGEST_SECONDS)),
        "spec": texts,
    },
    "SEEN": {
        "observation": st.builds(Observation, kinds, st.sampled_from(Witness), whole, optional(whole), known_limits),
        "spec": texts,
    },
    "PLATFORMS": {
        "architectures": several(st.sampled_from(["amd64", "arm64"])),
        "source": st.sampled_from([PlatformSource.INDEX, PlatformSource.ASSUMED]),
        "image": texts,
        "why": texts,
    },
    "POOL": {
        "target": targets,
        "state": st.sampled_from(PoolState),
        "generation": counts,
        "replicas": replicas,
        "served": flags,
        "limits": limits,
        "spec": texts,
        "has_narrow_cache": flags,
        "host_cache_bytes": st.integers(0, MOST_HOST_CACHE_BYTES),
        "drain_seconds": optional(drains),
        "engine": texts,
    },
    "REHOMING": {**place, "at": times, "reason": texts, "node": texts, "used_again": flags},
    "TOO_SMALL": {**place, "kv_tokens": counts, "engine": texts},
    "SETTINGS": {
        **dict.fromkeys(("max_model_len", "max_num_seqs", "max_num_batched_tokens"), whole),
        "gpu_memory_utilization_percent": whole,
        "dtype": texts,
        "quantization": optional(texts),
        "kv_cache_dtype": texts,
        "enforce_eager": flags,
    },
}
"""What can be drawn for each attribute. Ends of times are drawn as the seconds from their begin."""

BESIDE: Mapping[str, dict[str, Any]] = {
    "SEEN": {"release": __version__},
    "POOL": {"ready_replicas": 1},
    "RETUNE": {"due_at": "2026-01-01T00:00:00Z"},
    "TOO_SMALL": {"spec": "digest"},
    "SETTINGS": {"version": "0.32.0"},
}
OF_ANOTHER = {"POOL": {"name"}}
"""Attributes that follow from the others."""


def value_of(name: str, drawn: dict[str, Any]) -> Any:
    if name == "POOL":
        drawn["name"] = pool_name(drawn["target"].gpu_type, drawn["target"].split)
    for begin, end in (("began", "due"), ("at", "until")):
        if begin in drawn and end in drawn:
            drawn[end] += drawn[begin]
    return FORMS[name].kind(**drawn)


def test_every_attribute_of_every_value_is_drawn() -> None:
    assert VALUES.keys() == FORMS.keys()
    for name, form in FORMS.items():
        assert VALUES[name].keys() | OF_ANOTHER.get(name, set()) == set(form.attributes), name


@pytest.mark.parametrize("name", sorted(FORMS))
def test_what_is_written_is_read_back(name: str) -> None:
    form = FORMS[name]

    @given(st.fixed_dictionaries(VALUES[name]))
    @settings(max_examples=examples(40), deadline=None)
    def check(drawn: dict[str, Any]) -> None:
        value = value_of(name, drawn)
        assert form.entry is not None
        entry = form.entry(**form.fields(value, **BESIDE.get(name, {})))
        sent = json.loads(json.dumps(document_of(entry)))
        read = form.read(form.entry.model_validate(sent, strict=True, by_alias=True, by_name=False))
        assert (read, repr(read)) == (value, repr(value))

    check()


@pytest.mark.parametrize("name", sorted(FORMS))
def test_what_an_entry_leaves_out_is_what_the_value_has_by_default(name: str) -> None:
    """An earlier release did not write it, and a later one may not: whoever reads it must not guess otherwise."""
    form = FORMS[name]
    usual = {each.name: each.default for each in fields(form.kind) if each.default is not MISSING}
    usual = {name: default for name, default in usual.items() if not is_dataclass(default)}

    @given(st.fixed_dictionaries(VALUES[name]))
    @settings(max_examples=examples(5), deadline=None)
    def check(drawn: dict[str, Any]) -> None:
        value = value_of(name, drawn)
        assert form.entry is not None
        written = form.fields(value, **BESIDE.get(name, {}))
        for field in (each for each in written if not form.entry.model_fields[each].is_required()):
            read = form.usable(form.entry(**{each: found for each, found in written.items() if each != field}))
            for attribute, default in usual.items() if read is not None else ():
                assert getattr(read, attribute) in (getattr(value, attribute), default), (field, attribute)

    check()


@dataclass(frozen=True, slots=True)
class MoreThanRehoming(Rehoming):
    """A value with a field that no description knows."""

    zone: str = ""


class MoreThanRehomingStatus(RehomingStatus):
    """An entry with a field that no description knows."""

    zone: str | None = None


def refused() -> Iterator[tuple[type[Any], type[StatusModel], dict[str, Any]]]:
    """Descriptions that forget something, or name what is not there."""
    yield MoreThanRehoming, RehomingStatus, {}
    yield Rehoming, MoreThanRehomingStatus, {}
    yield Rehoming, RehomingStatus, {"unkept": ("node",)}
    yield Rehoming, RehomingStatus, {"beside": ("zone",)}
    yield Rehoming, RehomingStatus, {"beside": ("node",)}
    yield Rehoming, RehomingStatus, {"zone": Field("zone")}
    yield Rehoming, RehomingStatus, {"reason": Field("node")}


@pytest.mark.parametrize(("kind", "entry", "more"), list(refused()))
def test_a_description_that_forgets_a_field_is_an_error(
    kind: type[Any], entry: type[StatusModel], more: dict[str, Any]
) -> None:
    with pytest.raises(TypeError):
        Form(kind, entry, **{"split": places.SPLIT, **more})
    Form(Rehoming, RehomingStatus, split=places.SPLIT)


def test_what_is_not_kept_has_its_default() -> None:
    target = Target("l4-24gb", Split(1), ("a", "b"), "nvidia.com/gpu")
    pool = Pool("l4-24gb-tp1", target, PoolState.ACTIVE, 1, 2, ready=2, stuck=1)
    read = places.POOL.read(PoolStatus(**places.POOL.fields(pool, ready_replicas=2)))
    assert read == replace(pool, ready=0, stuck=0)


@pytest.mark.parametrize(
    ("field", "written", "why"),
    [
        (number("times", 1, 9), 10, "times 10 is not between 1 and 9"),
        (number("base_replicas", 1), 0, "baseReplicas 0 is less than 1"),
        (number("times", 1, 9), 2**53, "times 9007199254740992 is not between 1 and 9"),
        (number("times", 1), 2**53 + 1, "a number is beyond 9007199254740992"),
        (word("state", PoolState), "Gone", "state 'Gone' is none of Active, Retiring"),
    ],
)
def test_a_field_out_of_bounds_is_named_as_it_is_written(field: Field, written: object, why: str) -> None:
    assert field.to_attribute is not None
    with pytest.raises(Unusable, match=why):
        field.to_attribute(written)


BOUNDS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "SIZE": {"replicas": (1, MOST_REPLICAS), "concurrency": (1, MOST_CONCURRENCY)},
    "CALLED": dict.fromkeys(
        (
            "before",
            "arrivals_per_minute",
            "served_per_minute",
            "counted_seconds",
            "read_tokens_per_minute",
        ),
        (0, LARGEST_BOUND),
    ),
    "RESULT": {"in_a_row": (0, MOST_REPLICAS), "after": (0, LARGEST_BOUND)},
    "MARK": {"added": (0, MOST_REPLICAS)},
    "REBALANCING": dict.fromkeys(("base_replicas", "target_replicas"), (0, MOST_REPLICAS)),
    "FAILED_MOVE": {
        "times": (1, MOST_TIMES),
        "max_sequences": (1, MOST_CONCURRENCY),
        "batched_tokens": (1, LARGEST_BOUND),
    },
    "EARLIER": {"drain_seconds": (1, MOST_DRAIN_SECONDS), "max_sequences": (1, MOST_CONCURRENCY)},
    "RETUNE": {"replica_seconds": (1, int(LONGEST_SECONDS))},
    "POOL": {
        "replicas": (0, MOST_REPLICAS),
        "drain_seconds": (1, MOST_DRAIN_SECONDS),
        "host_cache_bytes": (1, MOST_HOST_CACHE_BYTES),
    },
}
"""The least and the largest number that is taken from a field of a status."""


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, fields in BOUNDS.items() for field in fields])
def test_a_number_of_a_status_is_taken_within_its_bounds_alone(name: str, field: str) -> None:
    form, (least, most) = FORMS[name], BOUNDS[name][field]

    def is_refused(entry: StatusModel, written: int) -> bool:
        try:
            form.read(entry.model_copy(update={field: written}))
        except Unusable as error:
            return any(words in str(error) for words in ("is less than", "is not between", "a number is beyond"))
        return False

    @given(st.fixed_dictionaries(VALUES[name]))
    @settings(max_examples=examples(5), deadline=None)
    def check(drawn: dict[str, Any]) -> None:
        assert form.entry is not None
        entry = form.entry(**form.fields(value_of(name, drawn), **BESIDE.get(name, {})))
        assert [is_refused(entry, number) for number in (least - 1, least, most, most + 1)] == [
            True,
            False,
            False,
            True,
        ]

    check()
