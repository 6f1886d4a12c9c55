"""The cache of claims: named ones are read in the background, again when they may have changed, and fairly."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plimsoll.adapters.cluster.client import ClusterRefused, ObjectKind
from plimsoll.adapters.cluster.kinds import CLAIMS, STORAGE_CLASSES, VOLUMES
from plimsoll.app.lookups import claim_cache
from plimsoll.app.lookups.claim_cache import BOUND_SECONDS, MOST_OF_NAMESPACE, UNBOUND_SECONDS, ClaimCache
from plimsoll.domain.cluster.node_rules import Claim, Mounted, Requirement
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import ConditionReason
from plimsoll.status.record.report import DeploymentProblem

ZONE = "topology.kubernetes.io/zone"


def claim(volume: str = "", kind: str = "zonal") -> dict[str, Any]:
    return {"spec": {"accessModes": ["ReadWriteOnce"], "volumeName": volume, "storageClassName": kind}}


def volume(zone: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}


class Desk:
    """A cache with a clock of its own, an API server of a few objects, and what was asked of it."""

    def __init__(self, objects: Mapping[tuple[ObjectKind, str], Any]) -> None:
        self.objects = dict(objects)
        self.asked: list[tuple[str, str]] = []
        self.now = 0.0
        self.changes = 0
        self.book = ClaimCache(self._get, self._changed, clock=lambda: self.now)

    async def _get(self, kind: ObjectKind, key: ObjectKey) -> Any:
        self.asked.append((kind.plural, str(key).lstrip("/")))
        found = self.objects.get((kind, key.name))
        if isinstance(found, Exception):
            raise found
        return found

    def _changed(self) -> None:
        self.changes += 1

    async def settle(self) -> None:
        self.book.start_wanted()
        for _ in range(50):
            await asyncio.sleep(0)

    async def answer(
        self, *names: str, namespace: str = "n", made_by: str = "", doubted: bool = False
    ) -> tuple[Claim, ...] | DeploymentProblem:
        mounted = [Mounted(name, made_by) for name in names]
        self.book.look_up(namespace, mounted, doubted=doubted)
        await self.settle()
        return self.book.look_up(namespace, mounted)


def known(answer: tuple[Claim, ...] | DeploymentProblem) -> tuple[Claim, ...]:
    assert not isinstance(answer, DeploymentProblem)
    return answer


def in_zone(zone: str) -> Claim:
    return Claim("w", ("ReadWriteOnce",), ((Requirement(ZONE, "In", (zone,)),),))


async def test_a_claim_is_read_with_its_volume_and_nothing_else() -> None:
    desk = Desk({(CLAIMS, "w"): claim("pv"), (VOLUMES, "pv"): volume("a")})
    first = desk.book.look_up("n", (Mounted("w"),))
    assert isinstance(first, DeploymentProblem)
    assert (first.reason, first.permanent) == (ConditionReason.READING_VOLUMES, False)
    assert await desk.answer("w") == (in_zone("a"),)
    assert desk.asked == [("persistentvolumeclaims", "n/w"), ("persistentvolumes", "pv")]
    assert desk.changes == 1
    await desk.book.close()


async def test_a_claim_without_a_volume_is_read_with_its_class_and_again_until_it_is_bound() -> None:
    desk = Desk({(CLAIMS, "w"): claim(), (STORAGE_CLASSES, "zonal"): {"volumeBindingMode": "Immediate"}})
    remark = (
        "The claim w is not bound, and its storage class zonal binds it before there is a pod (volumeBindingMode: "
        "Immediate): pods wait until it is bound."
    )
    assert await desk.answer("w") == (Claim("w", ("ReadWriteOnce",), remark=remark),)
    desk.objects |= {(CLAIMS, "w"): claim("pv"), (VOLUMES, "pv"): volume("b")}
    desk.now = UNBOUND_SECONDS
    assert await desk.answer("w") == (in_zone("b"),)
    asked = len(desk.asked)
    desk.now += UNBOUND_SECONDS
    await desk.answer("w")
    assert len(desk.asked) == asked, "a bound one is not asked about again so soon"
    desk.now += BOUND_SECONDS
    await desk.answer("w")
    assert len(desk.asked) > asked
    await desk.book.close()


async def test_what_may_not_be_read_or_does_not_exist_rules_nothing_out() -> None:
    desk = Desk({(CLAIMS, "w"): ClusterRefused("get", 403, "no"), (CLAIMS, "x"): SourceUnavailable("no")})
    assert await desk.answer("w", "x", "y") == (Claim("w"), Claim("x"), Claim("y"))
    await desk.book.close()


async def test_a_claim_that_cannot_be_mounted_is_read_again_soon_though_it_is_bound() -> None:
    leaving = {**claim("pv"), "metadata": {"deletionTimestamp": "2026-11-29T00:00:00Z"}}
    desk = Desk({(CLAIMS, "w"): leaving, (VOLUMES, "pv"): volume("a")})
    [found] = known(await desk.answer("w"))
    assert "is being deleted" in found.why_unusable
    desk.objects[CLAIMS, "w"] = claim("pv")
    desk.now = UNBOUND_SECONDS
    assert await desk.answer("w") == (in_zone("a"),)
    assert desk.changes == 2
    await desk.book.close()


async def test_a_class_that_does_not_exist_is_known_and_one_that_may_not_be_read_is_not() -> None:
    desk = Desk({(CLAIMS, "w"): claim(), (CLAIMS, "x"): claim(kind="secret"), (CLAIMS, "y"): claim(kind="")})
    desk.objects[STORAGE_CLASSES, "secret"] = ClusterRefused("get", 403, "no")
    found = known(await desk.answer("w", "x", "y"))
    assert [each.why_unusable != "" for each in found] == [True, False, False]
    assert "the storage class zonal, which does not exist" in found[0].why_unusable
    desk.objects[STORAGE_CLASSES, "zonal"] = {"volumeBindingMode": "Immediate"}
    desk.now = UNBOUND_SECONDS
    assert [each.why_unusable for each in known(await desk.answer("w", "x", "y"))] == ["", "", ""]
    await desk.book.close()


async def test_of_a_volume_that_is_made_for_each_pod_the_class_is_read_and_until_it_exists_often() -> None:
    desk = Desk({})
    assert await desk.answer("s", made_by="zonal") == (Claim("s of each pod"),)
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
    desk.objects[STORAGE_CLASSES, "zonal"] = {"volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": terms}
    desk.now = UNBOUND_SECONDS
    assert await desk.answer("s", made_by="zonal") == (
        Claim("s of each pod", terms=((Requirement(ZONE, "In", ("a",)),),)),
    )
    desk.now += UNBOUND_SECONDS
    await desk.answer("s", made_by="zonal")
    assert desk.asked == [("storageclasses", "zonal")] * 2
    await desk.book.close()


async def test_what_pods_find_no_place_with_is_read_again_as_often_as_a_claim_without_a_volume() -> None:
    desk = Desk({(CLAIMS, "w"): claim("pv"), (VOLUMES, "pv"): volume("a"), (CLAIMS, "x"): ClusterRefused("", 403, "")})
    await desk.answer("w", "x")
    desk.objects |= {(VOLUMES, "pv"): volume("b"), (CLAIMS, "x"): claim("pv")}
    desk.now = UNBOUND_SECONDS
    assert await desk.answer("w", "x") == (in_zone("a"), Claim("x"))
    assert await desk.answer("w", "x", doubted=True) == (in_zone("b"), replace(in_zone("b"), name="x"))
    desk.now += UNBOUND_SECONDS - 1.0
    asked = len(desk.asked)
    await desk.answer("w", "x", doubted=True)
    assert len(desk.asked) == asked
    await desk.book.close()


async def test_an_api_server_that_fails_later_changes_nothing() -> None:
    desk = Desk({(CLAIMS, "w"): claim("pv"), (VOLUMES, "pv"): volume("a")})
    await desk.answer("w")
    desk.objects[CLAIMS, "w"] = SourceUnavailable("no answer")
    desk.now += BOUND_SECONDS
    assert await desk.answer("w") == (in_zone("a"),)
    assert desk.changes == 1
    await desk.book.close()


async def test_a_bug_while_reading_one_claim_leaves_the_others() -> None:
    desk = Desk({(CLAIMS, "w"): RuntimeError("a bug"), (CLAIMS, "x"): claim("pv"), (VOLUMES, "pv"): volume("a")})
    found = await desk.answer("w", "x")
    assert not isinstance(found, DeploymentProblem)
    assert [each.terms is not None for each in found] == [False, True]
    await desk.book.close()


async def test_ten_thousand_names_of_one_namespace_do_not_delay_another() -> None:
    desk = Desk({(CLAIMS, "w"): claim("pv"), (VOLUMES, "pv"): volume("a")})
    flood = [Mounted(f"f{number}") for number in range(10_000)]
    desk.book.look_up("flood", flood)
    desk.book.look_up("n", (Mounted("w"),))
    desk.book.start_wanted()
    for _ in range(20):
        await asyncio.sleep(0)
    assert desk.book.look_up("n", (Mounted("w"),)) == (in_zone("a"),)
    assert sum(where.startswith("flood/") for _, where in desk.asked) < MOST_OF_NAMESPACE
    assert desk.book.look_up("flood", flood[-1:]) == (Claim(flood[-1].name),)
    await desk.book.close()


async def test_what_nobody_asks_about_is_forgotten() -> None:
    desk = Desk({})
    await desk.answer("w")
    desk.now = claim_cache.FORGOTTEN_SECONDS + 1.0
    desk.asked.clear()
    await desk.settle()
    assert desk.asked == []
    assert isinstance(desk.book.look_up("n", (Mounted("w"),)), DeploymentProblem)
    await desk.book.close()


def test_without_an_api_server_nothing_is_known() -> None:
    assert ClaimCache().look_up("n", (Mounted("w"),)) == ()
