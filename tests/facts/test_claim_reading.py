"""PersistentVolumeClaims, volumes and classes: which nodes can mount them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.cluster.node_rules import Claim, Mounted, Requirement, rules_of
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Reason
from plimsoll.facts.cluster.claim_reading import (
    class_name,
    class_terms,
    read_claim,
    read_claims,
    read_holders,
    volume_name,
    volume_terms,
)
from tests.support.tables import every_case

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "zonal", "volumeName": "pv-a"}}


def volume(*terms: dict[str, Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = {"nodeAffinity": {"required": {"nodeSelectorTerms": [*terms]}}} if terms else {}
    return {"metadata": {"name": "pv-a", "labels": labels or {}}, "spec": spec}


def matches(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


def class_of(mode: str, *zones: str) -> dict[str, Any]:
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": [*zones]}]}] if zones else []
    return {"volumeBindingMode": mode, "allowedTopologies": terms}


def test_a_bound_claim_goes_where_its_volume_is() -> None:
    found = read_claim("w", CLAIM, volume(matches(ZONE, "a")), None)
    assert found == Claim("w", ("ReadWriteOnce",), ((Requirement(ZONE, "In", ("a",)),),))
    rule = found.rule
    assert rule is not None
    assert (rule.reason, dict(rule.numbers)) == (Reason.VOLUME_ELSEWHERE, {"claim": "w", "where": f"{ZONE} in a"})
    assert [rule.accepts({ZONE: zone}) for zone in ("a", "b")] == [True, False]


def test_a_volume_of_one_node_is_bound_to_its_name() -> None:
    local = volume({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})
    rule = read_claim("w", CLAIM, local, None).rule
    assert rule is not None
    assert [rule.accepts({"metadata.name": name}) for name in ("n1", "n2")] == [True, False]


def test_a_volume_for_all_nodes_rules_nothing_out() -> None:
    assert read_claim("w", CLAIM, volume(), None).rule is None


def test_zone_labels_bind_a_volume_of_older_drivers_and_not_to_nodes_without_a_zone() -> None:
    for key in (ZONE, "failure-domain.beta.kubernetes.io/zone"):
        rule = read_claim("w", CLAIM, volume(labels={key: "a__b"}), None).rule
        assert rule is not None
        zones: list[dict[str, str]] = [{ZONE: "a"}, {ZONE: "b"}, {ZONE: "c"}, {}, {REGION: "r"}]
        assert [rule.accepts(labels) for labels in zones] == [True, True, False, True, False]


@every_case(
    ("kind", "zones"),
    [
        (class_of("WaitForFirstConsumer", "a", "b"), ["a", "b"]),
        (class_of("WaitForFirstConsumer"), ["a", "b", "c"]),
        (class_of("Immediate", "a"), ["a", "b", "c"]),
    ],
)
def test_a_claim_that_waits_for_its_first_pod_goes_where_its_class_makes_volumes(
    kind: dict[str, Any], zones: list[str]
) -> None:
    waiting = {"spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "zonal"}}
    rule = read_claim("w", waiting, None, kind).rule
    assert [zone for zone in "abc" if rule is None or rule.accepts({ZONE: zone})] == zones


def test_nothing_is_known_of_a_claim_that_does_not_exist() -> None:
    assert read_claim("w", None, None, None) == Claim("w")
    assert not Claim("w").is_for_one_node


GONE, LOST = {"deletionTimestamp": "2026-11-29T00:00:00Z"}, {"phase": "Lost"}
WAITING = {"spec": {"accessModes": ["ReadWriteMany"], "storageClassName": "zonal"}}


@every_case(
    ("body", "lacks_class", "words"),
    [
        (CLAIM, False, ""),
        (CLAIM, True, ""),
        (WAITING, False, ""),
        ({"spec": {"storageClassName": ""}}, True, ""),
        (WAITING, True, "names the storage class zonal, which does not exist"),
        ({**CLAIM, "status": {"phase": "Pending"}}, False, ""),
        ({**CLAIM, "status": LOST}, False, "lost its volume pv-a"),
        ({**CLAIM, "metadata": GONE}, False, "is being deleted"),
        ({**CLAIM, "metadata": GONE, "status": LOST}, False, "is being deleted"),
    ],
)
def test_a_claim_that_no_new_pod_can_mount_says_why_and_what_would_help(
    body: dict[str, Any], words: str, *, lacks_class: bool
) -> None:
    said = read_claim("w", body, None, None, lacks_class=lacks_class).why_unusable
    assert words in said
    assert bool(said) is bool(words)
    assert not words or "ame another claim" in said


@every_case(
    ("terms", "where"),
    [([], ""), ([{}], ""), ([{"matchExpressions": []}], ""), ([{}, matches(ZONE, "a")], f"{ZONE} in a")],
)
def test_a_volume_without_terms_is_for_no_node_and_an_empty_term_matches_none(
    terms: list[dict[str, Any]], where: str
) -> None:
    body = {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}
    found = read_claim("w", CLAIM, body, None)
    rule = found.rule
    assert rule is not None
    assert dict(rule.numbers)["where"] == (where or "no node")
    assert [rule.accepts({}), rule.accepts({ZONE: "a"})] == [False, bool(where)]
    assert ("No node may mount" in found.why_unusable) is not bool(where)


def test_a_class_without_topologies_makes_volumes_everywhere_and_with_an_empty_one_nowhere() -> None:
    kind = class_of("WaitForFirstConsumer")
    assert read_claim("w", WAITING, None, kind).why_unusable == ""
    assert "No node" in read_claim("w", WAITING, None, {**kind, "allowedTopologies": [{}]}).why_unusable


def named(name: str, **parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n"}, **parts}


@every_case(
    ("classes", "volumes", "is_usable"),
    [
        (["zonal"], [], True),
        (["other"], [], False),
        ([], [], True),
        (["other"], [{"storageClassName": "zonal"}], True),
        (["other"], [{"storageClassName": "zonal", "claimRef": {"namespace": "n", "name": "w"}}], True),
        (["other"], [{"storageClassName": "zonal", "claimRef": {"namespace": "n", "name": "x"}}], False),
        (["other"], [{"storageClassName": "more"}, {}], False),
    ],
)
def test_a_class_is_known_to_be_missing_where_a_file_has_others_and_no_volume_waits_for_the_claim(
    classes: list[str], volumes: list[dict[str, Any]], *, is_usable: bool
) -> None:
    kinds = [named(each, **class_of("WaitForFirstConsumer")) for each in classes]
    made = [named(f"pv-{number}", spec=spec) for number, spec in enumerate(volumes)]
    [found] = read_claims([named("w", **WAITING)], made, kinds).look_up(ObjectKey("n", "a"), [Mounted("w")])
    assert (found.why_unusable == "") is is_usable


def pod(name: str, node: str = "", phase: str = "Running", owner: str = "", namespace: str = "n") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"owner": owner} if owner else {}},
        "spec": {
            **({"nodeName": node} if node else {}),
            "volumes": [{"name": "t", "emptyDir": {}}, *({"persistentVolumeClaim": {"claimName": "w"}},) * 2],
        },
        "status": {"phase": phase},
    }


@every_case(
    ("mode", "pods", "nodes"),
    [
        ("ReadWriteOnce", [], ["n1", "n2"]),
        ("ReadWriteOnce", [pod("p", "n1")], ["n1"]),
        ("ReadWriteOnce", [pod("p", "n1"), pod("q", "n1")], ["n1"]),
        ("ReadWriteOnce", [pod("p", "n1"), pod("q", "n2")], ["n1", "n2"]),
        ("ReadWriteOnce", [pod("p")], ["n1", "n2"]),
        ("ReadWriteOnce", [pod("p", "n1", "Succeeded"), pod("q", "n2", "Failed")], ["n1", "n2"]),
        ("ReadWriteOnce", [pod("p", "n1", owner="a")], ["n1", "n2"]),
        ("ReadWriteOnce", [pod("p", "n1", owner="b")], ["n1"]),
        ("ReadWriteOnce", [pod("p", "n1", namespace="other")], ["n1", "n2"]),
        ("ReadWriteOnce", [pod("p", "cpu")], []),
        ("ReadWriteOnce", [pod("p", "n1", "Pending")], ["n1"]),
        ("ReadWriteOnce", [pod("p", "n1", "Pending"), pod("q", "n2", owner="a")], ["n1", "n2"]),
        ("ReadWriteOnce", [pod("p", "n1", "Pending"), pod("q", "n2", "Pending", "a")], ["n1", "n2"]),
        ("ReadWriteOnce", [pod("p", "n1"), pod("q", "n2", "Pending", "a")], ["n1"]),
        ("ReadWriteOnce", [pod("p", "n1"), pod("q", "n2", owner="a")], ["n1", "n2"]),
        ("ReadWriteOnce", [pod("p", "n1"), pod("q", "n2"), pod("r", "n1", owner="a")], ["n1"]),
        ("ReadWriteMany", [pod("p", "n1")], ["n1", "n2"]),
        ("ReadWriteOncePod", [pod("p", "n1", owner="a")], ["n1", "n2"]),
        ("ReadWriteOncePod", [pod("p", "n1")], None),
    ],
)
def test_pods_of_others_keep_a_claim_for_one_node_on_their_node_and_one_for_one_pod_to_themselves(
    mode: str, pods: list[dict[str, Any]], nodes: list[str] | None
) -> None:
    body = named("w", spec={"accessModes": [mode], "volumeName": "pv-a"})
    known = read_claims([body], [], [], read_holders(pods, "owner"))
    [found] = known.look_up(ObjectKey("n", "a"), [Mounted("w")])
    assert ("pod p on node n1 mounts it" in found.why_unusable) is (nodes is None)
    rules = rules_of([found])
    free = [node for node in ("n1", "n2") if all(rule.accepts({"metadata.name": node}) for rule in rules)]
    assert nodes is None or free == nodes
    assert all((rule.reason, rule.new_node_needs) == (Reason.VOLUME_IN_USE, "") for rule in rules)


def test_a_file_knows_its_claims_and_what_its_classes_make_for_each_pod() -> None:
    claim = {"metadata": {"name": "w", "namespace": "n"}, **CLAIM}
    kind = {"metadata": {"name": "fast"}, **class_of("WaitForFirstConsumer", "b")}
    known = read_claims([claim], [volume(matches(ZONE, "a"))], [kind])
    asked = [Mounted("gone"), Mounted("w"), Mounted("s", "fast"), Mounted("t", "unknown")]
    found = known.look_up(ObjectKey("n", "a"), asked)
    assert [each.name for each in found] == ["w", "s of each pod", "t of each pod"]
    rules = [each.rule for each in found]
    assert [[zone for zone in "abc" if rule is None or rule.accepts({ZONE: zone})] for rule in rules] == [
        ["a"], ["b"], ["a", "b", "c"],
    ]  # fmt: skip
    assert known.look_up(ObjectKey("other", "a"), [Mounted("w")]) == ()


def test_names_of_volume_and_class() -> None:
    assert (volume_name(CLAIM), class_name(CLAIM)) == ("pv-a", "zonal")
    assert (volume_name({}), class_name({"spec": None})) == ("", "")


@every_case(
    ("modes", "alone"),
    [
        (["ReadWriteOnce"], True),
        (["ReadWriteOncePod"], True),
        (["ReadWriteOnce", "ReadOnlyMany"], False),
        (["ReadWriteMany"], False),
        ([], False),
    ],
)
def test_a_claim_is_for_one_node_where_no_mode_is_for_many(modes: list[str], *, alone: bool) -> None:
    assert read_claim("w", {"spec": {"accessModes": modes}}, None, None).is_for_one_node is alone


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *(
                        "spec",
                        "metadata",
                        "labels",
                        "nodeAffinity",
                        "required",
                        "nodeSelectorTerms",
                        "deletionTimestamp",
                        "phase",
                        "matchExpressions",
                    ),
                    *("matchFields", "key", "operator", "values", "allowedTopologies", "matchLabelExpressions", ZONE),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["spec", "metadata", "status", "allowedTopologies", "volumeBindingMode"]), anything)
)
def test_any_content_is_read_into_something(body: dict[str, Any]) -> None:
    found = read_claim("w", body, body, None)
    held = read_holders([{**body, "spec": {**dict(body), "nodeName": "n"}}], "owner")
    assert read_claims([body], [body], [body], held).look_up(ObjectKey("n", "a"), [Mounted("w"), Mounted("s", "None")])
    assert found.rule is None or found.rule.accepts({}) in (True, False)
    assert class_terms(body) is None or class_terms({**body, "volumeBindingMode": "WaitForFirstConsumer"})
    assert volume_terms(body) is None or volume_terms(body) == found.terms
