"""The moves and changes of settings of all deployments together: who may make one more, and who cannot be stopped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.state.allowance import FleetBudget, Scope, Spent, counted
from plimsoll.rebalance.state.history import ChangeHistory, ChangeKind, ChangeRecord

HOUR_SECONDS = 3600.0

NOW = 1_700_000_000.0
CHAT, SEARCH = ObjectKey("chat", "a"), ObjectKey("search", "a")
NEIGHBOUR = ObjectKey("chat", "b")
FORGED = 10_000


def moves(count: int, *, at: float = NOW, kind: ChangeKind = ChangeKind.MOVE) -> ChangeHistory:
    return ChangeHistory(tuple(ChangeRecord(at, kind) for _ in range(count)))


def budget(bound: int, histories: dict[ObjectKey, ChangeHistory]) -> FleetBudget:
    return FleetBudget.of(bound, histories.items(), NOW)


def test_moves_and_changes_of_settings_of_the_last_hour_count_and_nothing_else() -> None:
    ages = {ChangeKind.MOVE: 0.0, ChangeKind.RETUNE: 3599.0, ChangeKind.ADD: 1.0, ChangeKind.REMOVE: 1.0}
    history = ChangeHistory(tuple(ChangeRecord(NOW - age, kind) for kind, age in ages.items()))
    assert counted(history, NOW) == 2
    assert counted(history, NOW + 1) == 1, "an hour has passed since the change of settings"
    assert counted(ChangeHistory((ChangeRecord(NOW + 9999, ChangeKind.MOVE),)), NOW) == 1, "a clock was set back"


def test_the_last_change_of_an_hour_is_made_and_the_next_one_waits_with_both_numbers() -> None:
    three = {ObjectKey(f"n{index}", "a"): moves(1) for index in range(3)}
    left_one = budget(4, three)
    assert left_one.spent(CHAT) is None
    left_none = left_one.with_one_more(CHAT)
    assert left_none.spent(SEARCH) == Spent(Scope.CLUSTER, 4, 4)


def test_one_deployment_takes_a_quarter_and_one_namespace_half() -> None:
    assert budget(12, {CHAT: moves(2)}).spent(CHAT) is None
    own = budget(12, {CHAT: moves(3)})
    assert own.spent(CHAT) == Spent(Scope.DEPLOYMENT, 3, 3)
    assert own.spent(NEIGHBOUR) is None
    shared = budget(12, {CHAT: moves(3), ObjectKey("chat", "c"): moves(3)})
    assert shared.spent(NEIGHBOUR) == Spent(Scope.NAMESPACE, 6, 6)
    assert shared.spent(SEARCH) is None


def test_with_a_bound_of_0_nothing_moves_and_with_1_one_does() -> None:
    assert budget(0, {}).spent(CHAT) == Spent(Scope.DEPLOYMENT, 0, 0)
    assert budget(1, {}).spent(CHAT) is None
    assert budget(1, {CHAT: moves(1)}).spent(SEARCH) == Spent(Scope.CLUSTER, 1, 1)


@pytest.mark.parametrize("at", [NOW, NOW - 3599, NOW + 10 * HOUR_SECONDS], ids=["now", "old", "in the future"])
def test_ten_thousand_forged_moves_stop_neither_the_namespace_next_door_nor_a_neighbour(at: float) -> None:
    claimed = moves(FORGED, at=at)
    forged = budget(12, {CHAT: claimed})
    assert forged.spent(CHAT) == Spent(Scope.DEPLOYMENT, 3, 3), "who forges stops its own moves"
    assert (forged.spent(NEIGHBOUR), forged.spent(SEARCH)) == (None, None)
    many = budget(12, {ObjectKey("chat", f"d{index}"): claimed for index in range(50)})
    assert many.total == 6
    assert many.spent(SEARCH) is None


def test_what_is_forged_takes_no_more_than_its_share_from_what_others_make() -> None:
    claimed, made = moves(FORGED), 0
    there = budget(12, {ObjectKey("chat", f"d{index}"): claimed for index in range(50)})
    for index in range(12):
        key = ObjectKey(f"honest-{index % 2}", f"d{index}")
        if there.spent(key) is None:
            there, made = there.with_one_more(key), made + 1
    assert made == 6


Wish = tuple[int, int, int, bool]
"""Seconds since the last wish, namespace, deployment, and whether somebody has approved it."""

WISHES = st.lists(
    st.tuples(st.integers(0, 1200), st.integers(0, 3), st.integers(0, 4), st.booleans()), min_size=1, max_size=80
)
BOUNDS = st.integers(0, 16)


def lived_through(bound: int, wishes: Sequence[Wish], forged: ChangeHistory) -> list[tuple[float, ObjectKey]]:
    """Return the changes that were made without an approval; another deployment claims to have made some as well."""
    now, made = NOW, list[tuple[float, ObjectKey]]()
    histories = {ObjectKey("forger", "a"): forged}
    for pause, namespace, name, approved in wishes:
        now += pause
        key = ObjectKey(f"n{namespace}", f"d{name}")
        history = histories.get(key, ChangeHistory())
        if not approved and FleetBudget.of(bound, histories.items(), now).spent(key) is not None:
            continue
        kind = ChangeKind.RETUNE if name % 2 else ChangeKind.MOVE
        histories[key] = history.recorded(ChangeRecord(now, kind))
        if not approved:
            made.append((now, key))
    return made


@given(BOUNDS, WISHES, st.integers(0, 40))
def test_no_hour_has_more_changes_than_the_bound_and_no_namespace_or_deployment_more_than_its_share(
    bound: int, wishes: list[Wish], claimed: int
) -> None:
    made = lived_through(bound, wishes, moves(claimed, at=NOW + HOUR_SECONDS))
    for start, _ in made:
        hour = [key for at, key in made if start <= at < start + HOUR_SECONDS]
        spaces = [key.namespace for key in hour]
        assert len(hour) <= bound
        assert max(map(spaces.count, spaces)) <= -(-bound // 2)
        assert max(map(hour.count, hour)) <= -(-bound // 4)


@given(st.integers(2, 40), st.integers(0, 300), st.integers(-7200, 7200))
def test_whatever_one_namespace_claims_another_may_always_make_a_move(bound: int, claimed: int, age: int) -> None:
    claims = {ObjectKey("chat", f"d{index}"): moves(claimed, at=NOW - age) for index in range(5)}
    assert budget(bound, claims).spent(SEARCH) is None
