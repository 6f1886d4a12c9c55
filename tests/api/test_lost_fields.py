"""A client that validates nothing loses fields, and the object's warnings name them where the client left a trace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plimsoll.api.conversion.convert import to_request
from plimsoll.api.crd.lost_fields import LAST_APPLIED, lost_fields
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.app.watch.pruning import inference_deployment
from plimsoll.placement.places.warnings import model_warnings
from tests.api.manifests import manifest
from tests.support.planning import model

SENT: dict[str, Any] = manifest()


def applied(**spec: Any) -> dict[str, str]:
    return {LAST_APPLIED: json.dumps({**SENT, "spec": SENT["spec"] | spec})}


OPEN = {"containers": [{"name": "a", "image": "b", "imag": "c"}], "affinity": {"nodeAffinty": {}}}
"""Parts of which the API server drops nothing."""

LOST: list[tuple[dict[str, Any], str]] = [
    ({"sloo": {"ttftMilliseconds": 1}}, "spec.sloo,"),
    ({"engine": {"extraArg": ["--seed=1"], "version": "0.32.0"}}, "spec.engine.extraArg,"),
    ({"podTemplate": {"env": [{"name": "A", "valu": "b"}]}}, "spec.podTemplate.env[0].valu,"),
    ({"podTemplate": {"nodeName": "n", **OPEN}}, "spec.podTemplate.nodeName,"),
    ({f"x{index}": 1 for index in range(7)}, "spec.x0, spec.x1, spec.x2, spec.x3, spec.x4 and 2 more,"),
]


@pytest.mark.parametrize(("spec", "named"), LOST, ids=[named for _, named in LOST])
def test_a_field_that_was_sent_and_does_not_exist_is_named(spec: dict[str, Any], named: str) -> None:
    assert f"has {named} and the API server dropped it" in (lost_fields(applied(**spec)) or "")


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        applied(),
        applied(slo=None, nobody=None),
        applied(model={"name": "a/b", "config": {"nobody": {"knows": "it"}}}),
        applied(podTemplate={"labels": {"any": "key"}}),
        {LAST_APPLIED: "no JSON"},
        {LAST_APPLIED: "[1]"},
        {LAST_APPLIED: "[" * 100_000},
        {"other": json.dumps({"spec": {"nobody": 1}})},
    ],
)
def test_nothing_else_is_said_to_be_lost(annotations: dict[str, str]) -> None:
    assert lost_fields(annotations) is None


def test_the_warnings_of_that_object_name_it_and_those_of_its_neighbour_do_not() -> None:
    body = manifest()
    careless = {**body, "metadata": body["metadata"] | {"annotations": applied(sloo={})}}
    kept = [inference_deployment(each) for each in (careless, body)]
    warned, neighbour = (to_request(parse_inference_deployment(each), model()) for each in kept)
    assert [each for each in model_warnings(warned) if "spec.sloo" in each]
    assert not [each for each in model_warnings(neighbour) if "applied last" in each]
