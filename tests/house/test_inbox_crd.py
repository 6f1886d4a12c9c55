"""The CRDs of proposals and approvals: they keep the same conventions, and their content cannot change."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from plimsoll.api.crd.inbox_schema import STATE_LABEL, approval_crd, proposal_crd
from plimsoll.api.v1alpha1.inbox import PlacementApprovalSpec, ProposalContent, ProposalState
from plimsoll.domain import kubernetes_names
from plimsoll.rebalance.inbox import LIFE_SECONDS, Standing, VoteOutcome
from plimsoll.render import placement_proposals
from plimsoll.status.record.acknowledged import LONGEST_SECONDS, AcknowledgementOutcome
from scripts.generate_crd import PLAIN, TEMPLATES, files
from tests.house.test_crd import FORBIDDEN, nodes

CRDS = {"proposals": proposal_crd(), "approvals": approval_crd()}


def root(crd: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("crd", CRDS.values(), ids=CRDS)
def test_the_committed_files_are_written_by_the_same_script(crd: dict[str, Any]) -> None:
    plural = crd["spec"]["names"]["plural"]
    written = dict(files())
    plain = PLAIN.parent / f"plimsoll.dev_{plural}.yaml"
    assert yaml.load(plain.read_text(), Loader=yaml.CSafeLoader) == crd
    for path in (plain, TEMPLATES / f"crd-{plural}.yaml"):
        assert path.read_text() == written[path]


@pytest.mark.parametrize("crd", CRDS.values(), ids=CRDS)
def test_every_field_is_described_bounded_and_structural(crd: dict[str, Any]) -> None:
    """A rule that compares two contents costs what they may be long."""
    found = {path: node for path, node in nodes(root(crd)) if not path.startswith((".metadata", ".kind", ".apiV"))}
    assert [path for path, node in found.items() if FORBIDDEN & node.keys() or "type" not in node] == []
    assert [path for path, node in found.items() if not path.endswith("[*]") and not node.get("description")] == []
    kinds: dict[str, Callable[[dict[str, Any]], bool]] = {
        "string": lambda node: "maxLength" in node or "enum" in node,
        "array": lambda node: "maxItems" in node,
        "integer": lambda node: {"minimum", "maximum"} <= node.keys(),
    }
    for kind, is_bounded in kinds.items():
        unbounded = [path for path, node in found.items() if node["type"] == kind and not is_bounded(node)]
        assert unbounded == []


def test_each_field_of_a_proposal_has_a_rule_that_keeps_it() -> None:
    schema = root(proposal_crd())
    fields = {field.alias or name for name, field in ProposalContent.model_fields.items()}
    rules = schema["x-kubernetes-validations"]
    kept = {re.sub(r" of a PlacementProposal.*", "", rule["message"]) for rule in rules}
    assert kept == fields == schema["properties"].keys() - {"apiVersion", "kind", "metadata"}
    for each in rules:
        name = each["message"].split()[0]
        assert f"has(self.{name}) == has(oldSelf.{name})" in each["rule"]
        assert f"self.{name} == oldSelf.{name}" in each["rule"]
    assert "subresources" not in proposal_crd()["spec"]["versions"][0], "a proposal has no status of its own"


def test_the_answer_of_a_person_cannot_be_changed_and_the_operators_can() -> None:
    schema = root(approval_crd())
    rule, *others = schema["properties"]["spec"]["x-kubernetes-validations"]
    assert rule["rule"] == "self == oldSelf"
    assert all("oldSelf" not in each["rule"] for each in others)
    assert schema["required"] == ["spec"]
    assert set(schema["properties"]["spec"]["required"]) == {"deployment", "decision", "by"}
    assert approval_crd()["spec"]["versions"][0]["subresources"] == {"status": {}}
    answers, finds = {"deployment", "proposal", "decision", "reason", "by"}, {"finding", "generation", "until"}
    assert set(PlacementApprovalSpec.model_fields) == answers | finds


@pytest.mark.parametrize("crd", CRDS.values(), ids=CRDS)
def test_columns_point_at_fields_of_their_type(crd: dict[str, Any]) -> None:
    known = dict(nodes(root(crd)))
    known[f".metadata.labels.{STATE_LABEL.replace('.', chr(92) + '.')}"] = {"type": "string"}
    known[".metadata.creationTimestamp"] = {"type": "date"}
    for column in crd["spec"]["versions"][0]["additionalPrinterColumns"]:
        assert known[column["jsonPath"]]["type"] == column["type"], column


def test_short_names_and_words_agree_with_the_core() -> None:
    assert proposal_crd()["spec"]["names"]["shortNames"] == [kubernetes_names.PROPOSAL_SHORT_NAME] == ["pprop"]
    assert approval_crd()["spec"]["names"]["shortNames"] == [kubernetes_names.APPROVAL_SHORT_NAME] == ["pappr"]
    assert {each.value for each in ProposalState} == {each.value for each in Standing}
    assert STATE_LABEL == placement_proposals.STATE_LABEL
    states = root(approval_crd())["properties"]["status"]["properties"]["state"]["description"]
    assert all(outcome.value in states for outcome in (*VoteOutcome, *AcknowledgementOutcome))


def test_the_page_has_every_word_and_figure() -> None:
    page = (PLAIN.parents[1] / "docs" / "approvals.md").read_text()
    for field in ProposalContent.model_fields.values():
        assert f"`{field.alias}`" in page
    for word in (*VoteOutcome, *AcknowledgementOutcome, Standing.OPEN):
        assert word.value in page
    assert f"{LIFE_SECONDS / 3600:.0f} hours" in page
    assert f"{LONGEST_SECONDS / 86_400:.0f} days" in page
    policy = (TEMPLATES / "guard-approvals.yaml").read_text()
    assert f"duration('{LONGEST_SECONDS / 3600:.0f}h')" in policy
