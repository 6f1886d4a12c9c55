"""``plimsoll estimate --from-cluster`` and ``plimsoll plan`` use what the statuses of a cluster have learned."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plimsoll.cli.questions.asked import TypedOptions
from plimsoll.cli.questions.direct import direct_question
from plimsoll.decision.spec_digests import digests_of
from plimsoll.domain.decisions.observations import EngineKind, Observation, Seen, Witness
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion, StepLimits
from plimsoll.domain.units import GIB
from plimsoll.status.record.observations import observation_entry
from plimsoll.status.writing import document_of
from testbed.control_plane import ControlPlane
from tests.support.installed import GROUP, LLAMA_8B, View, inference_deployment, namespace_of, on_gpu
from tests.support.reviewing import plan, run_here

pytestmark = pytest.mark.cluster

GPU = "h100-sxm-80gb"
PREDICTED = 50 * GIB
MORE = 3 * GIB
OLDER = EngineVersion(0, 31)


def kind(version: EngineVersion | None = None) -> EngineKind:
    """The kind of an engine of the model on one H100, with the default release or another one."""
    question = direct_question(LLAMA_8B, TypedOptions())
    assert question is not None
    found = question.request.engine_kind(GPU, Split(1))
    return found if version is None else replace(found, version=version)


def write_observation(view: View, name: str, of: EngineKind, missing: int, release: str | None = None) -> None:
    """Write an observation into a status, as the operator does: the engine had ``missing`` bytes less."""
    view.apply(name, replicas=0)
    seen = Observation(of, Witness.METRICS, PREDICTED, PREDICTED - missing, StepLimits(8192, 256))
    digest = digests_of(view.get(name)["spec"]).engine
    entry = document_of(observation_entry(Seen(seen, digest)))
    path = f"{GROUP}/namespaces/{view.namespace}/inferencedeployments/{name}/status"
    status = {"observations": [entry if release is None else {**entry, "release": release}]}
    view.control_plane.client.merge_patch(path, {"status": status})


@pytest.fixture
def taught(here: View) -> View:
    """A namespace with an engine that took 3 GiB more than predicted."""
    write_observation(here, "chat", kind(), MORE)
    return here


@pytest.fixture
def neighbour(control_plane: ControlPlane) -> Iterator[View]:
    """Another tenant, whose engine is of an older release and took 9 GiB more."""
    with namespace_of(control_plane, f"neighbour-{uuid.uuid4().hex[:6]}") as view:
        write_observation(view, "older", kind(OLDER), 9 * GIB)
        yield view


def estimate(kubeconfig: Path, *words: str) -> dict[str, Any]:
    ran = run_here(kubeconfig, "estimate", LLAMA_8B, "--gpu", GPU, "-o", "json", *words)
    assert ran.status == 0, ran.errors
    (answer,) = json.loads(ran.text)["answers"]
    return dict(answer)


def test_an_estimate_uses_what_an_engine_of_its_kind_reported_and_nothing_of_another_kind(
    taught: View, neighbour: View
) -> None:
    kubeconfig = taught.control_plane.admin_kubeconfig
    learned, plain = estimate(kubeconfig, "--from-cluster"), estimate(kubeconfig)
    assert learned["learned"]["totalBytes"] == learned["terms"]["learnedBytes"] == MORE
    assert learned["expectedBytes"] - plain["expectedBytes"] == MORE
    said = " ".join(learned["notes"])
    assert f"{taught.namespace}/chat" in said
    assert "3.00 GiB more" in said
    assert "1 with another release" in said, "the neighbour's engine is named, and does not count"
    assert "learned" not in plain
    assert plain["notes"] == [], "without the option nothing is read"

    theirs = estimate(kubeconfig, "--from-cluster", "--engine", str(OLDER))
    assert theirs["learned"]["totalBytes"] == 9 * GIB
    assert f"{neighbour.namespace}/older" in " ".join(theirs["notes"])
    assert "learned" not in estimate(kubeconfig, "--from-cluster", "-n", neighbour.namespace)


def test_several_engines_of_a_kind_are_counted_and_other_laws_are_left_out(taught: View) -> None:
    write_observation(taught, "more", kind(), 5 * GIB)
    write_observation(taught, "foreign", kind(), 20 * GIB, release="0.0.1")
    words = ("--from-cluster", "-n", taught.namespace)
    answer = estimate(taught.control_plane.admin_kubeconfig, *words)
    said = " ".join(answer["notes"])
    assert answer["learned"]["totalBytes"] == 5 * GIB, "of two the one that took more counts"
    assert "from 2 engines" in said
    assert "1 observation of another Plimsoll release" in said


def test_a_user_who_may_read_one_namespace_gets_what_it_holds_and_reads_about_the_refusal(
    taught: View, neighbour: View
) -> None:
    name = "reader"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": taught.namespace}
    head = {"name": name, "namespace": taught.namespace}
    rule = {"apiGroups": ["plimsoll.dev"], "resources": ["inferencedeployments"], "verbs": ["get", "list"]}
    rbac = "rbac.authorization.k8s.io/v1"
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": head},
        {"apiVersion": rbac, "kind": "Role", "metadata": head, "rules": [rule]},
        {"apiVersion": rbac, "kind": "RoleBinding", "metadata": head, "roleRef": role, "subjects": [subject]},
    ]
    taught.control_plane.apply(objects)
    kubeconfig = taught.control_plane.service_account_kubeconfig(taught.namespace, name)
    own = estimate(kubeconfig, "--from-cluster", "-n", taught.namespace)
    assert own["learned"]["totalBytes"] == MORE
    everywhere, theirs = (estimate(kubeconfig, "--from-cluster", *words) for words in ((), ("-n", neighbour.namespace)))
    for answer in (everywhere, theirs):
        assert "may not be read" in " ".join(answer["notes"])
        assert answer["expectedBytes"] > 0, "the estimate goes on"
    assert everywhere["learned"]["totalBytes"] == MORE, "the namespace of the context counts instead"
    assert "learned" not in theirs


def test_a_plan_says_which_estimates_use_what_engines_taught(taught: View, neighbour: View) -> None:
    mine = inference_deployment("mine", taught.namespace, **on_gpu(GPU))
    other = inference_deployment("other", taught.namespace, engine={"version": "0.30.0"}, **on_gpu(GPU))
    said = plan(taught.control_plane.admin_kubeconfig, [mine, other])
    notes = [note for note in said.document["notes"] if "Learned on" in note]
    assert len(notes) == 1, said
    assert notes[0].startswith(f"{taught.namespace}/mine: Learned on {GPU} x 1 from 1 engine")
    assert "3.00 GiB more" in notes[0]
    assert "up to twice the error band of that counts" in notes[0]
    assert neighbour.get("older")["status"]["observations"], "the neighbour keeps its own"
