"""``plimsoll plan`` on a live cluster says what the operator then does."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.control_plane import ControlPlane
from testbed.operator_process import NAMESPACE, OperatorProcess
from tests.support.helm import of_helm_test
from tests.support.installed import View, condition, inference_deployment, namespace_of, on_gpu
from tests.support.reviewing import Said, piped, plan, shown, what_if

pytestmark = pytest.mark.cluster

RIGHTS = Path(__file__).resolve().parents[2] / "examples" / "ci" / "rbac.yaml"
PRICES = {"a100-sxm-80gb": "0.90", "l40s-48gb": "1.10"}
"""Prices of the cluster's admin, upside down on purpose: the catalogue's never make an A100 cheaper than an L40S."""


@pytest.fixture(scope="module", autouse=True)
def prices(control_plane: ControlPlane) -> None:
    head = {"name": "plimsoll-prices", "namespace": NAMESPACE}
    control_plane.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": PRICES}])


@pytest.fixture(scope="module")
def neighbour(control_plane: ControlPlane, operator: OperatorProcess) -> Iterator[View]:
    """Another tenant, who is served on the only L4, and whom no test may disturb."""
    assert operator.is_running
    with namespace_of(control_plane, f"neighbour-{uuid.uuid4().hex[:6]}") as view:
        view.apply("theirs", **on_gpu("l4-24gb"))
        view.wait_ready("theirs")
        pods = view.pod_uids("theirs")
        yield view
        assert view.pod_uids("theirs") == pods


def asked(here: View, *manifests: dict[str, Any]) -> Said:
    return plan(here.control_plane.admin_kubeconfig, manifests)


def pools(here: View, name: str) -> list[tuple[str, int, int]]:
    active = [pool for pool in here.pools(name) if pool["state"] == "Active"]
    return [(pool["gpuType"], pool["tensorParallel"], pool["replicas"]) for pool in active]


def test_an_unchanged_object_is_kept_where_it_runs(here: View, neighbour: View) -> None:
    manifest = neighbour.get("theirs")
    said = asked(here, inference_deployment("theirs", neighbour.namespace, **on_gpu("l4-24gb")))
    assert (said.status, said.word("theirs")) == (0, "kept"), said
    assert said.places("theirs") == said.places("theirs", "before") == [("l4-24gb", 1, 1)]
    assert said.document["bill"]["before"] == said.document["bill"]["after"]
    assert neighbour.get("theirs")["metadata"]["resourceVersion"] == manifest["metadata"]["resourceVersion"]


def test_a_new_object_gets_the_place_that_was_said_and_the_neighbour_keeps_its_own(here: View, neighbour: View) -> None:
    pods = neighbour.pod_uids("theirs")
    said = asked(here, inference_deployment("mine", here.namespace))
    assert (said.status, said.word("mine"), said.word("theirs")) == (0, "placed", ""), said
    assert said.places("mine") == [("a100-sxm-80gb", 1, 1)], "the admin's prices count"

    here.apply("mine")
    served = here.wait_ready("mine")
    assert pools(here, "mine") == said.places("mine")
    placement = said.change("mine")["placement"]
    assert served["status"]["placement"]["hourlyPrice"] == placement["hourlyPrice"] == "0.90"
    assert neighbour.pod_uids("theirs") == pods
    assert asked(here, inference_deployment("mine", here.namespace)).word("mine") == "kept"


def test_a_change_that_needs_another_gpu_is_a_move_and_happens_as_said(here: View, neighbour: View) -> None:
    here.apply("grows", **on_gpu("l40s-48gb"))
    here.wait_ready("grows")
    larger = {"overrides": {"gpuType": "h100-sxm-80gb", "tensorParallel": 2}}
    said = asked(here, inference_deployment("grows", here.namespace, **larger))
    assert (said.status, said.word("grows"), said.word("theirs")) == (0, "moved", ""), said
    assert said.places("grows", "before") == [("l40s-48gb", 1, 1)]

    here.apply("grows", **larger)
    here.wait(lambda: pools(here, "grows") == said.places("grows"), "the place that was said")
    neighbour.wait_ready("theirs")


def test_more_replicas_and_other_settings_are_changes_in_place(here: View, neighbour: View) -> None:
    here.apply("stays", **on_gpu("l40s-48gb"))
    here.wait_ready("stays")
    more = asked(here, inference_deployment("stays", here.namespace, replicas=2, **on_gpu("l40s-48gb")))
    assert (more.word("stays"), more.places("stays")) == ("changed", [("l40s-48gb", 1, 2)])
    assert not more.change("stays")["restarts"]
    longer = asked(here, inference_deployment("stays", here.namespace, contextLength=8192, **on_gpu("l40s-48gb")))
    assert (longer.word("stays"), longer.change("stays")["restarts"]) == ("changed", True)
    assert neighbour.pods("theirs")


def test_what_waits_and_what_fits_nowhere_is_said_as_the_status_says_it(here: View, neighbour: View) -> None:
    busy = inference_deployment("busy", here.namespace, **on_gpu("l4-24gb"))
    huge = inference_deployment("huge", here.namespace, concurrency=4000, contextLength=131072)
    said = asked(here, busy, huge)
    assert (said.status, said.word("busy"), said.word("huge"), said.word("theirs")) == (1, "waiting", "refused", "")

    here.control_plane.apply([busy, huge])
    for name in ("busy", "huge"):
        body = here.wait_condition(name, "Planned", "False")
        shown = condition(body, "Planned")
        assert (said.change(name)["reason"], said.change(name)["message"]) == (shown["reason"], shown["message"])
    neighbour.wait_ready("theirs")


def test_the_api_server_s_refusal_is_quoted_with_the_place_of_the_object(here: View, neighbour: View) -> None:
    nowhere = inference_deployment("lost", "no-such-namespace")
    bad = inference_deployment("bad", here.namespace) | {"metadata": {"name": "bad", "namespace": here.namespace}}
    bad["metadata"]["labels"] = {"no good": "x"}
    said = asked(here, nowhere, bad, inference_deployment("good", here.namespace))
    assert said.status == 2
    assert "item 2" in said.errors
    assert "The API server would refuse it" in said.errors
    assert said.word("lost") == "placed", "its namespace may be created with it"
    assert said.word("good") == "placed"
    assert neighbour.pods("theirs")


def test_people_and_merge_requests_get_the_same_answer_as_programs(here: View, neighbour: View) -> None:
    here.apply("moves", **on_gpu("l40s-48gb"))
    here.wait_ready("moves")
    manifests = [
        inference_deployment("moves", here.namespace, **on_gpu("h100-sxm-80gb", 2)),
        inference_deployment("new", here.namespace),
        inference_deployment("waits", here.namespace, **on_gpu("l4-24gb")),
        inference_deployment("theirs", neighbour.namespace, **on_gpu("l4-24gb")),
    ]
    table, page = (shown(here.control_plane.admin_kubeconfig, manifests, form) for form in ("table", "markdown"))
    assert (table.status, page.status) == (1, 1)
    for name, words in {
        "moves": "moved +1 replica on l40s-48gb x 1 +1 replica on h100-sxm-80gb x 2 +1.10",
        "new": "placed +- +1 replica on a100-sxm-80gb x 1 +- +0.90 +PlacementDecided",
        "waits": "waiting +- +- +- +- +WaitingForGpus",
    }.items():
        assert re.search(f"{here.namespace}/{name} +{words}", table.text), table.text
    assert re.search(f"{neighbour.namespace}/theirs +kept +1 replica on l4-24gb x 1 ", table.text)
    assert re.search(r"All InferenceDeployments cost \$\d+\.\d\d/h now and \$\d+\.\d\d/h after \(\+\$", table.text)
    assert page.text.startswith("<!-- plimsoll plan -->\n### Plimsoll: GPU placement\n\n| Deployment | Change |")
    assert (
        f"| {here.namespace}/moves | **moved** | 1 replica on l40s-48gb x 1 | 1 replica on h100-sxm-80gb x 2 | 1.10 |"
        in page.text
    )
    assert f"**{here.namespace}/waits**: 1 of 1 replica has no place." in page.text


def test_what_if_answers_for_nodes_and_fields_that_nobody_has_changed(here: View, neighbour: View) -> None:
    here.apply("busy", **on_gpu("l4-24gb"))
    here.wait_condition("busy", "Planned", "False")
    kubeconfig, nodes = here.control_plane.admin_kubeconfig, here.control_plane.kubectl("get", "nodes", "-o", "name")
    more = what_if(kubeconfig, "+1 l4")
    assert (more.status, more.word("busy"), more.word("theirs")) == (0, "placed", "")
    none = what_if(kubeconfig, "-l4")
    assert (none.status, none.word("theirs"), none.word("busy")) == (1, "waiting", "refused")
    assert none.change("theirs")["reason"] == "WaitingForScheduler"
    field = what_if(kubeconfig, f"{neighbour.namespace}/theirs.overrides.gpuType=l40s-48gb")
    assert (field.word("theirs"), field.places("theirs")) == ("moved", [("l40s-48gb", 1, 1)])
    wrong = what_if(kubeconfig, f"{neighbour.namespace}/theirs.contextLength=-1")
    assert wrong.status == 2
    assert "The API server would refuse it" in wrong.errors
    assert here.control_plane.kubectl("get", "nodes", "-o", "name") == nodes
    neighbour.wait_ready("theirs")


def rights_of_the_example() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(RIGHTS.read_text(encoding="utf-8")))


def rights_of_helm_test() -> list[dict[str, Any]]:
    return [each for each in of_helm_test() if each["kind"] != "Pod"]


@pytest.mark.parametrize(
    ("rights", "account"),
    [(rights_of_the_example, ("default", "plimsoll-reader")), (rights_of_helm_test, (NAMESPACE, "plimsoll-test"))],
    ids=["example", "helm test"],
)
def test_who_may_only_list_gets_the_same_answer(
    here: View,
    neighbour: View,
    control_plane: ControlPlane,
    rights: Callable[[], list[dict[str, Any]]],
    account: tuple[str, str],
) -> None:
    control_plane.apply(rights())
    kubeconfig = control_plane.service_account_kubeconfig(*account)
    manifests = [
        inference_deployment("theirs", neighbour.namespace, **on_gpu("l4-24gb")),
        inference_deployment("mine", here.namespace),
    ]
    full, reading = asked(here, *manifests), piped(kubeconfig, manifests)
    assert "was not asked whether it would accept" in reading.errors
    assert "cannot be read" not in reading.errors
    for name in ("theirs", "mine"):
        assert reading.word(name) == full.word(name)
        assert reading.places(name) == full.places(name)
    assert (reading.status, reading.word("theirs")) == (0, "kept")
