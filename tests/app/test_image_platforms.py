"""Whole passes on nodes of two platforms: the image's index says where pods go, and what serves stays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from benchmarks.planning.passes import look_up
from plimsoll.adapters.cluster.client import NODES, PODS
from plimsoll.app.lookups.image_cache import ImageArchitectures, ImageCache
from plimsoll.app.plan.rendered import Desired
from plimsoll.domain.public_words import ConditionReason
from testbed.broken_node import LAST_WORDS
from testbed.fleet import gpu_node
from tests.support.live_passes import H100, L4, L40S, PRODUCTS, LivePasses, Open, pools

ARCH = "kubernetes.io/arch"
IMAGE, OTHER = "r.example/vllm:1", "r.example/vllm:2"
OWN: dict[str, Any] = {"engine": {"image": IMAGE}}
ARM, AMD, BOTH = ImageArchitectures(("arm64",)), ImageArchitectures(("amd64",)), ImageArchitectures(("amd64", "arm64"))
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-20T12:00:00Z"}
WHY = "the registry answered HTTP 401"
UNREAD = ImageArchitectures(why=WHY)


@dataclass
class Images:
    """A book of images that knows what it is given."""

    known: dict[str, ImageArchitectures] = field(default_factory=dict)
    reads: bool = True
    asked: list[tuple[str, str]] = field(default_factory=list)

    def look_up(self, namespace: str, image: str) -> ImageArchitectures | None:
        self.asked.append((namespace, image))
        return self.known.get(image)


@dataclass
class Place:
    """Cheap GPUs on hosts with Arm CPUs, and dearer ones on the usual ones."""

    there: LivePasses
    images: Images

    @staticmethod
    def of(there: LivePasses, *architectures: str) -> Place:
        made = Place(there, Images())
        for kind, architecture in zip((L4, L40S), architectures, strict=True):
            made.add(kind, architecture)
        there.passes.reader.images = cast("ImageCache", made.images)
        return made

    def add(self, kind: str, architecture: str) -> None:
        self.there.version += 1
        body = gpu_node(f"node-{kind}", PRODUCTS[kind], 4, labels={ARCH: architecture} if architecture else {})
        body["metadata"] |= {"uid": f"node-{kind}", "resourceVersion": str(self.there.version)}
        self.there.store.observe(NODES, "ADDED", body)

    def change_pods(self, **status: Any) -> None:
        for body in self.there.store.all(PODS):
            self.there.version += 1
            head = {**body["metadata"], "resourceVersion": str(self.there.version)}
            changed = {**body, "metadata": head, "status": {**body["status"], **status}}
            self.there.store.observe(PODS, "MODIFIED", changed)

    async def serving(self, found: ImageArchitectures, **spec: Any) -> Desired:
        """Let a deployment with an own image serve, with this answer of the registry."""
        self.images.known[IMAGE] = found
        self.there.put("own", L4, L40S, **{**OWN, **spec})
        await self.there.settle()
        case = self.there.make()["own"]
        assert case.outcome.deployment.placed.around.ready_pods()
        self.images.asked.clear()
        return case


@pytest.fixture
def place(opened: Open) -> Place:
    return Place.of(opened(), "arm64", "amd64")


def noted(case: Desired) -> dict[str, Any] | None:
    assert case.new_status is not None
    return cast("dict[str, Any] | None", case.new_status.get("imagePlatforms"))


def assumed(why: str) -> dict[str, Any]:
    return {"reference": IMAGE, "platforms": ["linux/amd64"], "source": "Assumed", "unread": why}


def templates(case: Desired) -> list[Any]:
    return [each["spec"]["template"]["spec"] for each in case.manifests if each["kind"] == "Deployment"]


def kept_off(case: Desired) -> list[list[str]]:
    """The architectures that the pods' affinity leaves out, by pool."""
    found = []
    for spec in templates(case):
        required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        rules = required["nodeSelectorTerms"][0]["matchExpressions"]
        found += [rule["values"] for rule in rules if rule["key"] == ARCH]
    return found


async def test_an_image_waits_for_its_index_and_goes_where_it_says_and_a_neighbour_does_not_wait(place: Place) -> None:
    place.there.put("own", L4, L40S, **OWN)
    place.there.put("free", L4, L40S, namespace="other")
    await place.there.settle()
    made = place.there.make()
    problem = made["own"].outcome.problem
    assert problem is not None
    assert (problem.reason, problem.permanent) == (ConditionReason.READING_IMAGE, False)
    assert pools(made["free"]) == {(L4, "Active"): 1}
    assert set(place.images.asked) == {("ns", IMAGE)}
    place.images.known[IMAGE] = ARM
    made = place.there.make()
    assert pools(made["own"]) == {(L4, "Active"): 1}
    assert noted(made["own"]) == {"reference": IMAGE, "platforms": ["linux/arm64"], "source": "Index"}
    assert kept_off(made["own"]) == [["amd64", "ppc64le", "s390x"]]
    assert noted(made["free"]) is None


@pytest.mark.parametrize(
    ("found", "where", "status"),
    [
        (ARM, L4, {"platforms": ["linux/arm64"], "source": "Index"}),
        (AMD, L40S, {"platforms": ["linux/amd64"], "source": "Index"}),
        (BOTH, L4, {"platforms": ["linux/amd64", "linux/arm64"], "source": "Index"}),
        (UNREAD, L40S, {"platforms": ["linux/amd64"], "source": "Assumed", "unread": WHY}),
    ],
    ids=["arm64", "amd64", "both", "unread"],
)
async def test_what_the_index_says_decides_and_where_it_says_nothing_the_usual_platform_does(
    place: Place, found: ImageArchitectures, where: str, status: dict[str, Any]
) -> None:
    case = await place.serving(found)
    assert pools(case) == {(where, "Active"): 1}
    assert noted(case) == {"reference": IMAGE, **status}


async def test_a_rejection_names_the_image_and_why_its_index_could_not_be_read(place: Place) -> None:
    place.images.known[IMAGE] = UNREAD
    place.there.put("own", L4, **OWN)
    await place.there.settle()
    case = place.there.make()["own"]
    assert case.new_status is not None
    (said,) = [each["message"] for each in case.new_status["rejections"] if each["gpuType"] == L4][:1]
    for words in ("linux/amd64", f"the index of {IMAGE} could not be read: {WHY}", "spec.engine.platforms"):
        assert words in said


@pytest.mark.parametrize(
    ("architectures", "engine", "reads"),
    [
        (("amd64", "amd64"), {"image": IMAGE}, True),
        (("", "amd64"), {"image": IMAGE}, True),
        (("arm64", "amd64"), {"image": IMAGE, "platforms": ["linux/amd64"]}, True),
        (("arm64", "amd64"), {}, True),
        (("arm64", "amd64"), {"image": IMAGE}, False),
    ],
    ids=["usual nodes", "nodes without a label", "declared", "the release's", "switched off"],
)
async def test_nobody_is_asked_where_the_answer_cannot_matter(
    opened: Open, architectures: tuple[str, str], engine: dict[str, Any], *, reads: bool
) -> None:
    place = Place.of(opened(), *architectures)
    place.images.reads = reads
    place.there.put("own", L4, L40S, engine=engine)
    await place.there.settle()
    assert sum(pools(place.there.make()["own"]).values()) == 1
    assert place.images.asked == []


async def test_nodes_of_another_platform_alone_are_reason_enough_to_ask(opened: Open) -> None:
    place = Place.of(opened(), "arm64", "arm64")
    place.there.put("own", L4, L40S, **OWN)
    await place.there.settle()
    assert place.there.make()["own"].outcome.problem is not None
    place.images.known[IMAGE] = ARM
    assert pools(place.there.make()["own"]) == {(L4, "Active"): 1}


@pytest.mark.parametrize("later", [AMD, BOTH, UNREAD, None], ids=["amd64", "both", "unread", "not read"])
async def test_what_serves_keeps_its_platforms_and_its_pods_whatever_the_registry_says_later(
    place: Place, later: ImageArchitectures | None
) -> None:
    """Also after a restart of the operator, which knows nothing, and a change of the spec that is not of the image."""
    before = await place.serving(ARM)
    place.images.known = {} if later is None else {IMAGE: later}
    place.there.change("own", replicas=2)
    place.there.put("free", L4, L40S, created="04:00:00")
    await place.there.settle()
    made = place.there.make()
    assert pools(made["own"]) == {(L4, "Active"): 2}
    assert templates(made["own"]) == templates(before)
    assert noted(made["own"]) == noted(before)
    assert place.images.asked == []
    assert pools(made["free"]) == {(L4, "Active"): 1}


async def test_what_was_assumed_before_stays_while_it_serves(opened: Open) -> None:
    """The registry is asked for the first time when a node with another platform comes."""
    place = Place.of(opened(), "amd64", "amd64")
    before = await place.serving(BOTH)
    assert noted(before) == {"reference": IMAGE, "platforms": ["linux/amd64"], "source": "Assumed"}
    place.add(H100, "arm64")
    place.there.put("new", L4, L40S, engine={"image": OTHER})
    made = place.there.make()
    assert templates(made["own"]) == templates(before)
    assert (made["new"].outcome.problem is not None, place.images.asked) == (True, [("ns", OTHER)])


async def test_a_pod_that_is_not_ready_for_a_moment_is_no_reason_to_ask(place: Place) -> None:
    """An answer that allows more nodes would start the engines again."""
    before = await place.serving(UNREAD)
    place.images.known[IMAGE] = BOTH
    place.change_pods(conditions=[SCHEDULED, {"type": "Ready", "status": "False"}])
    place.there.put("free", L4, L40S, created="04:00:00")
    made = place.there.make()
    assert not made["own"].outcome.deployment.placed.around.ready_pods()
    assert (templates(made["own"]), place.images.asked) == (templates(before), [])
    assert pools(made["free"]) == {(L4, "Active"): 1}


async def test_another_image_waits_for_its_own_index_and_what_runs_stays_meanwhile(place: Place) -> None:
    await place.serving(ARM)
    place.there.change("own", engine={"image": OTHER})
    case = place.there.make()["own"]
    assert (case.outcome.problem is not None, case.manifests) == (True, ())
    assert place.images.asked == [("ns", OTHER)]
    place.images.known[OTHER] = AMD
    case = place.there.make()["own"]
    assert pools(case)[L40S, "Active"] == 1
    status = noted(case)
    assert status is not None
    assert (status["reference"], status["platforms"]) == (OTHER, ["linux/amd64"])


async def test_what_cannot_start_goes_where_a_later_answer_says(place: Place) -> None:
    """The registry did not answer at first, so the pods went to nodes where the image cannot start."""
    await place.serving(UNREAD)
    ended = {"exitCode": 1, "message": LAST_WORDS["ImageForOtherPlatform"]}
    engine = {"name": "engine", "restartCount": 3, "state": {"waiting": {}}, "lastState": {"terminated": ended}}
    place.change_pods(containerStatuses=[engine], conditions=[SCHEDULED])
    case = place.there.make()["own"]
    assert (case.outcome.problem, pools(case), noted(case)) == (None, {(L40S, "Active"): 1}, assumed(WHY))
    place.images.known[IMAGE] = ARM
    case = place.there.make()["own"]
    assert pools(case) == {(L4, "Active"): 1}
    assert noted(case) == {"reference": IMAGE, "platforms": ["linux/arm64"], "source": "Index"}
    assert kept_off(case) == [["amd64", "ppc64le", "s390x"]]


async def test_what_waits_for_a_place_reads_the_newest_answer_and_keeps_a_good_one(place: Place) -> None:
    place.images.known[IMAGE] = UNREAD
    place.there.put("own", H100, **OWN)
    await place.there.settle()
    assert noted(place.there.make()["own"]) == assumed(WHY)
    place.images.known.clear()
    case = place.there.make()["own"]
    assert (case.outcome.problem, noted(case)) == (None, assumed(WHY)), "it does not wait again"
    place.images.known[IMAGE] = ImageArchitectures(why="away")
    assert noted(place.there.make()["own"]) == assumed("away")
    place.images.known[IMAGE] = ARM
    place.there.carry_out([*place.there.make().values()])
    place.images.known[IMAGE] = UNREAD
    read = {"reference": IMAGE, "platforms": ["linux/arm64"], "source": "Index"}
    assert noted(place.there.make()["own"]) == read


async def test_the_template_of_pods_that_are_yet_to_be_made_follows_the_answer(place: Place) -> None:
    place.images.known[IMAGE] = UNREAD
    place.there.put("own", L40S, **OWN)
    place.there.put("free", L40S)
    place.there.make()
    await look_up(place.there.passes)
    made = place.there.make()
    assert (kept_off(made["own"]), kept_off(made["free"])) == ([["arm64", "ppc64le", "s390x"]], [])
    place.images.known[IMAGE] = BOTH
    made = place.there.make()
    assert (kept_off(made["own"]), kept_off(made["free"])) == ([["ppc64le", "s390x"]], [])


async def test_declared_platforms_replace_what_was_found(place: Place) -> None:
    await place.serving(ARM)
    place.there.change("own", engine={"image": IMAGE, "platforms": ["linux/amd64", "linux/arm64"]})
    case = place.there.make()["own"]
    assert noted(case) is None
    assert kept_off(case) == [["ppc64le", "s390x"]]


async def test_an_admins_copy_of_the_releases_image_is_read_and_counts_for_all_platforms_otherwise(
    place: Place,
) -> None:
    settings = place.there.passes.settings
    place.there.passes.reader.settings = replace(settings, engine_image_nvidia="house.example/vllm")
    copy = "house.example/vllm:v0.32.0"
    place.images.known[copy] = AMD
    place.there.put("one", L4, L40S)
    await place.there.settle()
    case = place.there.make()["one"]
    assert set(place.images.asked) == {("ns", copy)}
    assert pools(case) == {(L40S, "Active"): 1}
    assert noted(case) == {"reference": copy, "platforms": ["linux/amd64"], "source": "Index"}
    place.images.known[copy] = UNREAD
    place.there.put("two", L4, L40S)
    await place.there.settle()
    case = place.there.make()["two"]
    assert (pools(case), kept_off(case)) == ({(L4, "Active"): 1}, [])
    assert noted(case) == {"reference": copy, "source": "Assumed", "unread": WHY}
