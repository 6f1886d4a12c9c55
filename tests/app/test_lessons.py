"""Which observations of others count: false ones of any number and size next to an honest deployment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.decision.lessons import CommonLessons, Contribution, contribution, lessons, speed_factor, teaches_others
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.decisions.observations import Correction, EngineKind, MeasuredSpeed, Observation, Seen, Witness
from plimsoll.domain.decisions.outcomes import MemoryEstimate, Option, Split
from plimsoll.domain.decisions.terms import OWN, Teacher
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import GpuConstraints, Request
from plimsoll.domain.units import GIB
from plimsoll.memory.calibration import OTHERS_BANDS
from plimsoll.placement.demands.pools import SeenAnswers, pool_name
from plimsoll.placement.options.feasibility import sized
from plimsoll.placement.options.verdicts import options
from plimsoll.placement.plan import plan
from plimsoll.status.words.learned import teacher_words
from tests.support.planning import H100, L4, fleet, gpu, node, pool, request, tenant

ONE, SPEC = Split(1), "digest"
HONEST = request()
PLAIN: dict[str, Any] = {"model": {"name": HONEST.model.name}, "contextLength": 4096}


def figures(wanted: Request) -> MemoryEstimate:
    return sized(wanted, gpu(L4), ONE)[1]


LAW = figures(HONEST)


def report(available: int | None) -> Seen:
    witness = Witness.OUT_OF_MEMORY if available is None else Witness.METRICS
    kind = HONEST.engine_kind(L4, ONE)
    return Seen(Observation(kind, witness, LAW.available_kv_bytes, available), SPEC)


def corrections_from(
    *others: tuple[str, str, Sequence[int | None]], spec: dict[str, Any] = PLAIN
) -> tuple[Correction, ...]:
    """Return the honest deployment's corrections from others, each with its namespace, its name and its figures."""
    contributions = [
        contribution(ObjectKey(where, name), SPEC, map(report, said), teaches=teaches_others(spec))
        for where, name, said in others
    ]
    return lessons((), CommonLessons(contributions).of(HONEST.key, HONEST.model.name))


def after(corrections: tuple[Correction, ...]) -> MemoryEstimate:
    return figures(replace(HONEST, corrections=corrections))


TINY, HUGE = 1, LAW.budget_bytes


@given(
    liars=st.lists(
        st.tuples(
            st.sampled_from(["default", "a", "b", "c"]),
            st.sampled_from(["one", "two", "three"]),
            st.lists(st.none() | st.integers(-(2**60), 2**60), max_size=5),
        ),
        max_size=12,
    )
)
def test_whatever_others_report_the_estimate_stays_near_the_law(
    liars: list[tuple[str, str, list[int | None]]],
) -> None:
    found = after(corrections_from(*liars))
    low, high = OTHERS_BANDS * LAW.slack_bytes, OTHERS_BANDS * LAW.margin_bytes
    assert -low <= found.expected_bytes - LAW.expected_bytes <= high
    assert 0 <= found.margin_bytes <= LAW.margin_bytes + high + low + GIB
    assert 0 <= found.slack_bytes <= LAW.slack_bytes + high + low + GIB


@pytest.mark.parametrize("figure", [TINY, HUGE])
def test_one_other_namespace_is_not_believed_however_many_objects_it_has(figure: int) -> None:
    assert corrections_from(*(("a", f"liar-{index}", [figure] * 9) for index in range(30))) == ()
    [believed] = corrections_from(("a", "x", [figure]), ("b", "y", [figure]))
    assert believed.taught_by == Teacher(namespaces=2)


def test_a_crowd_counts_once() -> None:
    """Two namespaces report honestly, and a third one reports little from thirty objects."""
    honest = LAW.available_kv_bytes - GIB // 4
    others = [("a", "x", [honest]), ("b", "y", [honest]), *(("c", f"liar-{index}", [TINY]) for index in range(30))]
    [believed] = corrections_from(*others)
    assert believed.total_bytes == GIB // 4


def test_the_own_namespace_is_believed_and_then_no_other() -> None:
    near = LAW.available_kv_bytes - GIB // 4
    [believed] = corrections_from(
        ("default", "sister", [near]), ("a", "x", [TINY]), ("b", "y", [TINY]), ("c", "z", [TINY])
    )
    assert (believed.total_bytes, believed.taught_by) == (GIB // 4, Teacher(names=("sister",)))


def test_every_kind_of_engine_is_taught_by_whom_it_is_taught() -> None:
    kinds = [HONEST.engine_kind(L4, Split(degree)) for degree in (1, 2, 4)]
    said = [replace(report(TINY).observation, kind=kind) for kind in kinds]
    others = {"default": (said[0],), "a": (said[1], said[2]), "b": (said[2],)}
    contributions = [Contribution(ObjectKey(where, "x"), each) for where, each in others.items()]
    found = {each.kind: each.taught_by for each in CommonLessons(contributions).of(HONEST.key, HONEST.model.name)}
    assert found == {kinds[0]: Teacher(names=("x",)), kinds[2]: Teacher(namespaces=2)}


def test_a_deployment_does_not_teach_itself_as_another() -> None:
    assert corrections_from((HONEST.key.namespace, HONEST.key.name, [TINY])) == ()


@pytest.mark.parametrize(
    "added",
    [
        {"engine": {"image": "registry.example.com/liar:1"}},
        {"engine": {"extraArgs": ["--some-flag"]}},
        {"engine": {"speculation": {"draftModel": {"name": "a/b", "path": "/mine"}}}},
        {"model": {"name": HONEST.model.name, "path": "/mine"}},
        {"model": {"name": HONEST.model.name, "config": {"a": 1}}},
        {"podTemplate": {"env": [{"name": "LD_PRELOAD", "value": "/mine.so"}]}},
        {"podTemplate": {"envFrom": [{"configMapRef": {"name": "mine"}}]}},
        {"podTemplate": {"volumes": [{"name": "mine"}]}},
        {"podTemplate": {"volumeMounts": [{"name": "mine"}]}},
        {"podTemplate": {"modelCache": {"claimName": "mine"}}},
        {"podTemplate": {"runtimeClassName": "mine"}},
        {"podTemplate": {"containers": [{"name": "mine"}]}},
        {"podTemplate": {"initContainers": [{"name": "mine"}]}},
        {"podTemplate": {"hostAliases": [{"ip": "10.0.0.1"}]}},
        {"podTemplate": {"dnsConfig": {"nameservers": ["10.0.0.1"]}}},
    ],
)
def test_engines_with_something_that_the_user_added_teach_nobody_else(added: dict[str, Any]) -> None:
    others = [("default", "sister", [TINY]), ("a", "x", [TINY]), ("b", "y", [TINY])]
    assert corrections_from(*others, spec=PLAIN | added) == ()
    assert len(corrections_from(*others)) == 1


@given(
    spec=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["model", "engine", "podTemplate", "modelCache", "env", "image"]), inner)
        ),
        max_leaves=8,
    )
)
def test_a_spec_of_any_shape_is_read(spec: Any) -> None:
    teaches_others(spec if isinstance(spec, dict) else {"engine": spec, "podTemplate": spec})


def test_what_was_seen_before_the_spec_changed_teaches_nobody_else() -> None:
    """The engines may have run with something that the user added and has removed since."""
    changed = [contribution(ObjectKey("default", "sister"), "another digest", [report(TINY)], teaches=True)]
    assert not list(CommonLessons(changed).of(HONEST.key, HONEST.model.name))


def test_own_measurements_are_believed_as_they_are() -> None:
    own = lessons([report(GIB)], ())
    assert after(own).available_kv_bytes == GIB
    assert own[0].taught_by == OWN
    [kept] = lessons([report(GIB)], corrections_from(("default", "sister", [2 * GIB])))
    assert kept == own[0]


def test_an_own_crash_without_a_figure_gives_way_to_a_measurement_of_others() -> None:
    near = LAW.available_kv_bytes - GIB // 4
    [kept] = lessons([report(None)], corrections_from(("default", "sister", [near])))
    assert kept.exact
    [alone] = lessons([report(None)], corrections_from(("default", "sister", [None])))
    assert alone.taught_by == OWN


def test_the_estimate_says_who_taught_it() -> None:
    assert LAW.taught_by is None
    near = LAW.available_kv_bytes - GIB // 4
    assert after(corrections_from(("default", "sister", [near]))).taught_by == Teacher(names=("sister",))
    words = [teacher_words(each) for each in (OWN, Teacher(names=("b", "a")), Teacher(namespaces=3))]
    assert words == ["this deployment", "b, a", "3 other namespaces"]


class TestMeasuredSpeeds:
    """Times that engines report count for the next place, in steps, by the same rule of whom to believe."""

    @staticmethod
    def speeds(*others: tuple[str, str, float], spec: dict[str, Any] = PLAIN) -> dict[EngineKind, float]:
        kind = HONEST.engine_kind(L4, ONE)
        contributions = [
            contribution(
                ObjectKey(where, name),
                SPEC,
                (),
                teaches=teaches_others(spec),
                speeds=[MeasuredSpeed(kind, factor)],
            )
            for where, name, factor in others
        ]
        return dict(CommonLessons(contributions).speeds_of(HONEST.key, HONEST.model.name))

    @pytest.mark.parametrize(
        ("slowness", "factor"), [(1.0, 1), (0.9, 1), (1.11, 1), (1.2, 1.25), (1.5, 1.5625), (0.8, 0.8), (0.5, 0.512)]
    )
    def test_a_small_difference_does_not_count_and_a_large_one_in_steps(self, slowness: float, factor: float) -> None:
        assert speed_factor(slowness) == pytest.approx(factor)

    def test_the_own_namespace_comes_first_and_one_other_namespace_is_not_believed(self) -> None:
        kind, own = HONEST.engine_kind(L4, ONE), HONEST.key.namespace
        assert self.speeds(("far", "a", 3.0), ("far", "b", 3.0)) == {}
        assert self.speeds(("far", "a", 1.25), ("off", "b", 1.25)) == {kind: 1.25}
        assert self.speeds(("far", "a", 3.0), ("off", "b", 3.0), (own, "sister", 1.25)) == {kind: 1.25}
        assert self.speeds((own, HONEST.key.name, 3.0)) == {}, "nobody teaches itself as another"
        assert self.speeds((own, "sister", 3.0), spec={"engine": {"image": "mine"}}) == {}

    def test_the_next_place_counts_with_the_measured_time_and_what_runs_stays(self) -> None:
        slow = MeasuredSpeed(HONEST.engine_kind(L4, ONE), 2.0)
        taught = replace(HONEST, speeds=(slow,))
        where = fleet(node("l", L4, 4), node("h", H100, 4))
        found = {
            (each.gpu.name, each.split): each for each in options(taught, where).verdicts if isinstance(each, Option)
        }
        plain = {
            (each.gpu.name, each.split): each for each in options(HONEST, where).verdicts if isinstance(each, Option)
        }
        for place, each in found.items():
            before = plain[place].performance
            assert each.performance is not None
            assert before is not None
            factor = 2.0 if place == (L4, ONE) else 1.0
            assert each.performance.tpot_seconds == pytest.approx(factor * before.tpot_seconds)
            assert each.performance.typical_ttft_seconds == pytest.approx(factor * before.typical_ttft_seconds)
            assert each.performance.measured == factor
        alone = plain[L4, ONE].performance
        assert alone is not None
        limit = 1.5 * alone.tpot_seconds
        promised = replace(taught, slo=Slo(None, limit), constraints=GpuConstraints(max_per_replica=1))
        (moved,) = plan([tenant(promised)], where)
        assert {pool.gpu_type for pool in moved.pools} == {H100}
        (stays,) = plan([tenant(promised, pool(L4))], fleet(node("l", L4, 4, held=1), node("h", H100, 4)))
        assert {(each.gpu_type, each.state.value) for each in stays.pools} == {(L4, "Active")}
        assert stays.outgrown is None

    def test_engines_slower_than_their_band_are_named_with_both_figures(self) -> None:
        where = fleet(node("l", L4, 4, held=1))
        seen = SeenAnswers(100.0, pool_name(L4, ONE), 3.0)
        (slow,) = plan([replace(tenant(HONEST, pool(L4)), answers=seen)], where)
        assert any("300 % of the estimated time, and the error band ends at" in each for each in slow.warnings)
        (usual,) = plan([replace(tenant(HONEST, pool(L4)), answers=replace(seen, slowness=1.05))], where)
        assert not any("of the estimated time" in each for each in usual.warnings)
        (other,) = plan([replace(tenant(HONEST, pool(L4)), answers=replace(seen, pool="another"))], where)
        assert not any("of the estimated time" in each for each in other.warnings)
