"""A release that renders pods differently leaves running engines alone until what they were made from changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from plimsoll.domain.cluster.node_rules import DRIVER_LABEL
from plimsoll.domain.requests.workload import Manifest, PodOptions, SecretKey
from plimsoll.render.inputs import INPUTS_ANNOTATION, RENDERING, RENDERING_ANNOTATION, is_left_running
from plimsoll.render.objects import deployment
from tests.render.workloads import decision, options
from tests.support.planning import LLAMA_70B_FP8, request
from tests.support.tables import every_case

POOL = decision().pools[0]


def rendered(**changes: Any) -> Manifest:
    assert POOL.choice is not None
    return deployment(options(**changes), POOL, POOL.choice)


def by_another_release(manifest: Manifest, *, with_digest: bool = True) -> Manifest:
    """The same by a release whose pods had fewer volumes, no read-only root and no rules for drivers and neighbours."""
    live = copy.deepcopy(manifest)
    annotations = live["metadata"]["annotations"]
    annotations[RENDERING_ANNOTATION] = str(RENDERING + 1)
    if not with_digest:
        del annotations[RENDERING_ANNOTATION], annotations[INPUTS_ANNOTATION]
    spec = live["spec"]["template"]["spec"]
    spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != "tmp"]
    spec["containers"][0]["securityContext"].pop("readOnlyRootFilesystem", None)
    spec["containers"][0]["env"] = spec["containers"][0]["env"][:4]
    del spec["affinity"]["podAffinity"]
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    term["matchExpressions"] = [each for each in term["matchExpressions"] if each["key"] != DRIVER_LABEL]
    return live


def with_env(value: str) -> PodOptions:
    return PodOptions(env=({"name": "HOUSE", "value": value},))


@pytest.mark.parametrize("with_digest", [True, False], ids=["newer release", "release before digests"])
def test_engines_of_another_release_are_left_running(*, with_digest: bool) -> None:
    assert is_left_running(by_another_release(rendered(), with_digest=with_digest), rendered())


@every_case("with_digest", [True, False], ids=["newer release", "release before digests"])
@every_case(
    "changed",
    [
        {"pod": with_env("b")},
        {"image": "house/vllm:2"},
        {"extra_args": ("--seed", "1")},
        {"token": SecretKey("hf-token", "token")},
        {"engine_version": "0.31.0"},
    ],
    ids=lambda changed: str(next(iter(changed))),
)
def test_a_change_of_what_they_are_made_from_replaces_them(changed: dict[str, Any], *, with_digest: bool) -> None:
    before = {"pod": with_env("a")} if "pod" in changed else {}
    if "token" in changed and not with_digest:
        before, changed = changed, {}  # an entry that is gone shows; one that is new may be the release's own
    live = by_another_release(rendered(**before), with_digest=with_digest)
    live["spec"]["template"]["spec"]["containers"][0]["env"] = rendered(**before)["spec"]["template"]["spec"][
        "containers"
    ][0]["env"]
    assert not is_left_running(live, rendered(**changed))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda live: live["metadata"]["annotations"].update({RENDERING_ANNOTATION: "nonsense"}),
        lambda live: live["metadata"]["annotations"].update({RENDERING_ANNOTATION: "0"}),
        lambda live: live["spec"].pop("template"),
    ],
    ids=["nonsense", "too old", "no template"],
)
def test_what_cannot_be_recognised_is_rendered_anew(spoil: Callable[[Manifest], None]) -> None:
    live = by_another_release(rendered(), with_digest=False)
    spoil(live)
    assert not is_left_running(live, rendered())


def test_engines_of_a_release_before_digests_are_replaced_for_other_nodes() -> None:
    live = by_another_release(rendered(), with_digest=False)
    required = live["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] = ["NVIDIA-H100-PCIe"]
    assert not is_left_running(live, rendered())


def test_one_of_this_rendering_is_compared_field_by_field_as_ever() -> None:
    assert not is_left_running(rendered(), rendered())


def test_the_digest_knows_nothing_of_who_owns_it_or_how_many_there_are() -> None:
    inputs = {
        rendered(**changes)["metadata"]["annotations"][INPUTS_ANNOTATION]
        for changes in ({}, {"uid": "another"}, {"pod": PodOptions(env=())})
    }
    assert len(inputs) == 1


TWO_GPUS = decision(request(LLAMA_70B_FP8)).pools[0]


def of_two_gpus(**changes: Any) -> Manifest:
    assert TWO_GPUS.choice is not None
    return deployment(options(**changes), TWO_GPUS, TWO_GPUS.choice)


def with_requests(manifest: Manifest, **requests: str) -> Manifest:
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] |= requests
    return manifest


@pytest.mark.parametrize("with_digest", [True, False], ids=["with a digest", "release before digests"])
def test_an_engine_that_asked_for_the_old_defaults_is_not_restarted_for_the_new_need(*, with_digest: bool) -> None:
    """Releases before rendering 4 asked for two cores and 8 GiB, whatever the engine."""
    live = with_requests(by_another_release(of_two_gpus(), with_digest=with_digest), cpu="2", memory="8Gi")
    assert of_two_gpus()["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "3"
    assert is_left_running(live, of_two_gpus())


@pytest.mark.parametrize("with_digest", [True, False], ids=["with a digest", "release before digests"])
def test_an_engine_with_other_requests_of_the_user_is_replaced(*, with_digest: bool) -> None:
    before = PodOptions(resources={"requests": {"memory": "64Gi"}})
    live = by_another_release(of_two_gpus(pod=before), with_digest=with_digest)
    assert not is_left_running(live, of_two_gpus())
    limited = PodOptions(resources={"limits": {"memory": "64Gi"}})
    assert not is_left_running(by_another_release(of_two_gpus(), with_digest=with_digest), of_two_gpus(pod=limited))


def test_an_engine_of_this_rendering_asks_for_what_it_needs() -> None:
    assert not is_left_running(with_requests(of_two_gpus(), cpu="2"), of_two_gpus())
