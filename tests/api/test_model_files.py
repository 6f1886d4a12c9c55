"""The model's files need room: a disk or a limit or a claim that is too small is named, with both figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.api.conversion.claims import claim_remarks
from plimsoll.api.conversion.convert import to_request, to_workload_options
from plimsoll.domain.cluster.fleet import Weakest
from plimsoll.domain.cluster.node_rules import DISK_FIELD, DRIVER_LABEL, Claim
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import Evidence
from plimsoll.domain.public_words import Reason
from plimsoll.domain.units import GIB
from tests.api.manifests import deployment
from tests.support.planning import LLAMA_70B, model
from tests.support.tables import every_case

PUBLISHED = 141_107_412_992
"""The sum that ``model.safetensors.index.json`` of meta-llama/Llama-3.3-70B-Instruct names."""

POOR = Weakest(1, 535)
"""A cluster with a node whose disk holds nothing, and one with an old driver."""


def cache(**fields: str) -> dict[str, Any]:
    return {"podTemplate": {"modelCache": fields}}


def test_the_files_are_as_large_as_they_are_published() -> None:
    wanted = to_request(deployment(), model(LLAMA_70B), weakest=POOR)
    [rule] = [each for each in wanted.node_rules if each.reason is Reason.NODE_DISK_TOO_SMALL]
    assert int(dict(rule.numbers)["least_bytes"]) == pytest.approx(PUBLISHED, rel=1e-5)


@given(st.integers(0, 2 * PUBLISHED), st.sampled_from([450, 470, 525, 535, 550, 575, 580, 590, 610]))
def test_a_node_is_ruled_out_exactly_where_its_disk_or_driver_is_known_to_be_too_small(disk: int, driver: int) -> None:
    rules = to_request(deployment(), model(LLAMA_70B), weakest=POOR).node_rules
    large, new = {DISK_FIELD: str(2 * PUBLISHED)}, {DRIVER_LABEL: "700"}
    assert all(rule.accepts(large | new) and rule.accepts({}) for rule in rules)
    [least] = [int(dict(each.numbers)["least_bytes"]) for each in rules if each.reason is Reason.NODE_DISK_TOO_SMALL]
    assert all(rule.accepts(new | {DISK_FIELD: str(disk)}) for rule in rules) is (disk >= least)
    assert all(rule.accepts(large | {DRIVER_LABEL: str(driver)}) for rule in rules) is (driver >= 580)


@every_case(
    ("weakest", "reasons"),
    [
        (Weakest(), set()),
        (Weakest(2 * PUBLISHED, 580), set()),
        (Weakest(2 * PUBLISHED, 575), {Reason.DRIVER_TOO_OLD}),
        (Weakest(PUBLISHED // 2, 580), {Reason.NODE_DISK_TOO_SMALL}),
        (Weakest(PUBLISHED // 2, None), {Reason.NODE_DISK_TOO_SMALL}),
        (POOR, {Reason.NODE_DISK_TOO_SMALL, Reason.DRIVER_TOO_OLD}),
    ],
)
def test_a_rule_that_all_nodes_follow_is_none(weakest: Weakest, reasons: set[Reason]) -> None:
    """Deployments with equal rules share one look at the nodes."""
    found = to_request(deployment(), model(LLAMA_70B), weakest=weakest).node_rules
    assert {each.reason for each in found} == reasons


def test_files_of_an_unknown_class_are_not_counted() -> None:
    guessed = replace(model(LLAMA_70B), evidence=Evidence.GENERIC)
    assert to_request(deployment(**cache(sizeLimit="1Gi")), guessed, weakest=Weakest(1)).node_rules == ()


def test_a_limit_below_the_files_is_refused_with_one_that_works() -> None:
    for refused in ("50Gi", "131Gi", "141G"):
        with pytest.raises(
            InvalidInput, match=rf"modelCache\.sizeLimit: '{refused}' cannot.* 131\.42 GiB.*Write 142Gi"
        ):
            to_request(deployment(**cache(sizeLimit=refused)), model(LLAMA_70B))
    for taken in ("142Gi", "142G", "1Ti"):
        assert to_request(deployment(**cache(sizeLimit=taken)), model(LLAMA_70B), weakest=POOR).node_rules


@every_case(
    "spec",
    [
        cache(claimName="weights"),
        {"model": {"name": "m", "path": "/models/m"}, **cache(sizeLimit="1Gi")},
        {"engine": {"extraArgs": ["--download-dir", "/data"]}, **cache(sizeLimit="1Gi")},
    ],
)
def test_files_that_are_kept_elsewhere_need_no_disk_of_a_node(spec: dict[str, Any]) -> None:
    found = to_request(deployment(**spec), model(LLAMA_70B), weakest=POOR).node_rules
    assert Reason.NODE_DISK_TOO_SMALL not in {each.reason for each in found}


@every_case(
    ("size", "is_warned"),
    [(20 * GIB, True), (131 * GIB, True), (132 * GIB, False), (None, False)],
)
def test_a_claim_that_is_too_small_gives_a_warning_that_names_both_figures(
    size: int | None, *, is_warned: bool
) -> None:
    options = to_workload_options(deployment(**cache(claimName="weights")))
    others = (Claim("weights", capacity_bytes=size), Claim("adapters", capacity_bytes=1))
    said = claim_remarks(options, model(LLAMA_70B), others)
    assert bool(said) is is_warned
    for sentence in said:
        assert "The claim weights in spec.podTemplate.modelCache.claimName has " in sentence
        assert "the model's files take 131.42 GiB" in sentence
