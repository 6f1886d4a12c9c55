"""The history of decisions: one line for each change of pools, none where nothing changes, and never many."""

from __future__ import annotations

import re
from dataclasses import replace

from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.placement.costs import Appraisal
from plimsoll.placement.demands.pools import Decision, Pool
from plimsoll.placement.plan import plan
from plimsoll.status.record.decisions import DecisionNote, remembered
from tests.support.planning import H100, L40S, fleet, node, pool, request, tenant
from tests.support.status_schema import most_items

MOST_DECISIONS = 10

KEY = ObjectKey("ns", "chat")
PLACED = replace(plan([tenant(request(replicas=2))], fleet(node("l", L40S)))[0], appraisal=None)


def note(number: int) -> DecisionNote:
    return DecisionNote(str(number), "2026-11-22T20:00:00Z", "1 on l4-24gb x 1")


def added(before: tuple[Pool, ...], decision: Decision, at: str = "2026-11-22T21:00:00Z") -> DecisionNote:
    [found] = remembered((), KEY, before, decision, at)
    return found


def test_a_first_placement_names_the_pools_and_who_found_them() -> None:
    found = added((), replace(PLACED, appraisal=Appraisal("programme", 4.0, 3.9, 7)))
    assert (found.placed, found.replaced) == ("2 on l40s-48gb x 1", "")
    assert (found.solver, found.gap_permille, found.at) == ("programme", 25, "2026-11-22T21:00:00Z")


def test_a_change_names_what_it_replaced() -> None:
    found = added((pool(H100, replicas=2),), PLACED)
    assert (found.placed, found.replaced) == ("2 on l40s-48gb x 1", "2 on h100-sxm-80gb x 1")
    assert (found.solver, found.gap_permille) == ("", None)


def test_another_engine_at_the_same_place_is_a_change_and_is_named() -> None:
    found = added((pool(L40S, replicas=2, engine="sglang"),), PLACED)
    assert (found.placed, found.replaced) == ("2 on l40s-48gb x 1", "2 on l40s-48gb x 1 with sglang")


def test_a_decision_that_changes_no_pool_adds_no_line_however_good_it_is() -> None:
    again = replace(PLACED, appraisal=Appraisal("search", 1.0, None, 1))
    assert remembered((note(1),), KEY, (pool(L40S, replicas=2),), again, "later") == (note(1),)


def test_the_newest_comes_first_and_the_oldest_goes() -> None:
    earlier = tuple(note(number) for number in range(MOST_DECISIONS))
    found = remembered(earlier, KEY, (), PLACED, "now")
    assert len(found) == MOST_DECISIONS == most_items("decisions")
    assert found[1:] == earlier[:-1]
    assert found[0].at == "now"


def test_ids_differ_by_object_and_time() -> None:
    first, second = added((), PLACED), added((), PLACED, "later")
    [other] = remembered((), ObjectKey("ns", "mail"), (), PLACED, "2026-11-22T21:00:00Z")
    assert len({first.id, second.id, other.id}) == 3
    assert all(re.fullmatch("[0-9a-f]{10}", each.id) for each in (first, second, other))
    assert added((), PLACED).id == first.id


def test_a_decision_with_many_pools_stays_one_short_line() -> None:
    pools = tuple(replace(pool(H100), name=each, target=replace(pool(H100).target, gpu_type=each)) for each in "abcdef")
    [found] = remembered((), KEY, pools, replace(PLACED, pools=()), "now")
    assert found.replaced == "1 on a x 1, 1 on b x 1, 1 on c x 1, 1 on d x 1, and 2 more"
