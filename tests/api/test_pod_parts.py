"""Parts of a pod that a user adds to the engine's: what is taken, what is refused by its field, and what it changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.api.checks.pod_policy import POLICED_FIELDS, PodPolicy, check_pod_policy
from plimsoll.api.conversion.convert import to_request, to_workload_options
from plimsoll.domain.cluster.host import USUAL_HOST, HostRoom
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import NotPermitted
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB
from plimsoll.facts.cluster.host_reading import pod_need
from plimsoll.facts.cluster.quota_reading import read_limit_ranges
from plimsoll.placement.explain import rejection_sentence, remedy_sentence
from plimsoll.placement.places.warnings import limit_warnings
from plimsoll.placement.plan import plan
from plimsoll.render.merging import merged
from plimsoll.render.objects import deployment as workload
from tests.api.manifests import deployment
from tests.api.poison import refusal
from tests.render.workloads import chosen_pool, options, rendered
from tests.support.limit_ranger import limit_range
from tests.support.planning import H100, fleet, gpu, model, node, tenant
from tests.support.tables import every_case, examples

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
IN_A = {"key": ZONE, "operator": "In", "values": ["a"]}
NOT_N = {"key": "metadata.name", "operator": "NotIn", "values": ["n"]}
NEAR = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}
SPREAD = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}


def sidecar(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "log", "image": "log:1", **fields}]}


def first(**fields: Any) -> dict[str, Any]:
    return {"initContainers": [{"name": "fetch", "image": "fetch:1", **fields}]}


def nodes(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}}


def asked(**template: Any) -> Request:
    return to_request(deployment(podTemplate=template), model())


def pod(**template: Any) -> dict[str, Any]:
    """The spec of a pod that is rendered with this template."""
    return dict(rendered(to_workload_options(deployment(podTemplate=template)))["spec"]["template"]["spec"])


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "the engine's name": (sidecar(name="engine"), "containers[0].name", "probes of podTemplate"),
    "a name of another container": (sidecar() | first(name="log"), "containers[0].name", "rename it"),
    "no image": ({"containers": [{"name": "log"}]}, "containers[0].image", "Write it"),
    "a field that a container does not have": (sidecar(imag="x"), "containers[0].imag", "no such field"),
    "the engine's port": (sidecar(ports=[{"containerPort": 8000}]), "containers[0].ports[0].containerPort", "another"),
    "the name of the engine's port": (
        sidecar(ports=[{"containerPort": 1, "name": "http"}]),
        "containers[0].ports[0].name",
        "another name",
    ),
    "a port twice": (sidecar(ports=[{"containerPort": 1}] * 2), "containers[0].ports[1].containerPort", "twice"),
    "a name of a port twice": (
        sidecar(ports=[{"containerPort": each, "name": "a"} for each in (1, 2)]),
        "containers[0].ports[1].name",
        "twice",
    ),
    "a port's name without a letter": (
        sidecar(ports=[{"containerPort": 1, "name": "1-2"}]),
        "containers[0].ports[0].name",
        "",
    ),
    "no address": ({"hostAliases": [{"ip": "10.0.0", "hostnames": ["a"]}]}, "hostAliases[0].ip", "10.0.0.1"),
    "a port of the node": (
        sidecar(ports=[{"containerPort": 1, "hostPort": 1}]),
        "containers[0].ports[0].hostPort",
        "less than or equal to 0",
    ),
    "a GPU": (sidecar(resources={"limits": {"nvidia.com/gpu": 1}}), "containers[0].resources", "Remove nvidia.com/gpu"),
    "a slice before the engine": (
        first(resources={"requests": {"nvidia.com/mig-1g.10gb": 1}}),
        "initContainers[0].resources",
        "Remove nvidia.com/mig-1g.10gb",
    ),
    "a request above its limit": (
        sidecar(resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}}),
        "containers[0].resources.limits.cpu",
        "at least 2",
    ),
    "a privileged container": (
        sidecar(securityContext={"privileged": True}),
        "containers[0].securityContext.privileged",
        "should be False",
    ),
    "more rights than at its start": (
        sidecar(securityContext={"allowPrivilegeEscalation": True}),
        "containers[0].securityContext.allowPrivilegeEscalation",
        "should be False",
    ),
    "a capability": (
        sidecar(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        "containers[0].securityContext.capabilities.add[0]",
        "NET_BIND_SERVICE",
    ),
    "root": (sidecar(securityContext={"runAsUser": 0}), "containers[0].securityContext.runAsUser", "or equal to 1"),
    "pods of root": ({"securityContext": {"runAsNonRoot": False}}, "securityContext.runAsNonRoot", "should be True"),
    "no seccomp profile": (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        "securityContext.seccompProfile.type",
        "RuntimeDefault",
    ),
    "a volume that is not there": (
        sidecar(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        "containers[0].volumeMounts[0].name",
        "podTemplate.volumes",
    ),
    "the root of the container": (
        sidecar(volumeMounts=[{"name": "cache", "mountPath": "//"}]),
        "containers[0].volumeMounts[0].mountPath",
        "",
    ),
    "a variable twice": (sidecar(env=[{"name": "A"}] * 2), "containers[0].env[1].name", "twice"),
    "variables from nowhere": (sidecar(envFrom=[{}]), "containers[0].envFrom[0]", "exactly one"),
    "a probe of nothing": (sidecar(livenessProbe={"periodSeconds": 5}), "containers[0].livenessProbe", "exactly one"),
    "a probe of another host": (
        sidecar(readinessProbe={"httpGet": {"port": 1, "host": "metadata"}}),
        "containers[0].readinessProbe.httpGet.host",
        "no such field",
    ),
    "a probe of what ends": (
        first(startupProbe={"exec": {"command": ["true"]}}),
        "initContainers[0]",
        "restartPolicy: Always",
    ),
    "another program's probe": (
        {"livenessProbe": {"exec": {"command": ["true"]}}},
        "livenessProbe.exec",
        "remove it",
    ),
    "not all capabilities dropped": (
        sidecar(securityContext={"capabilities": {"drop": ["NET_RAW"]}}),
        "containers[0].securityContext.capabilities.drop[0]",
        "should be 'ALL'",
    ),
    "no capability dropped": (
        sidecar(securityContext={"capabilities": {"drop": []}}),
        "containers[0].securityContext.capabilities.drop",
        "at least 1",
    ),
    "another port": ({"startupProbe": {"httpGet": {"path": "/", "port": 1}}}, "startupProbe.httpGet.port", ""),
    "two successes of life": (
        {"livenessProbe": {"successThreshold": 2}},
        "livenessProbe.successThreshold",
        "should be 1",
    ),
    "no node": (nodes(), f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", "at least 1"),
    "an empty term": (nodes({}), f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]", "matches no node"),
    "more terms than are joined": (
        nodes(*[{"matchExpressions": [IN_A]}] * 9),
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        "at most 8",
    ),
    "In without values": (
        nodes({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]",
        "values for In",
    ),
    "Exists with values": (
        nodes({"matchExpressions": [IN_A | {"operator": "Exists"}]}),
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]",
        "Remove values",
    ),
    "Gt of a word": (
        nodes({"matchExpressions": [IN_A | {"operator": "Gt"}]}),
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]",
        "whole number",
    ),
    "another field of nodes": (
        nodes({"matchFields": [NOT_N | {"key": "spec.unschedulable"}]}),
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].key",
        "metadata.name",
    ),
    "a selector with half an expression": (
        {
            "affinity": {
                "podAffinity": {
                    REQUIRED: [NEAR | {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]
                }
            }
        },
        f"affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0]",
        "with In and NotIn",
    ),
    "a spread twice": (
        {"topologySpreadConstraints": [SPREAD, SPREAD]},
        "topologySpreadConstraints[1].topologyKey",
        "twice",
    ),
    "domains of a preference": (
        {"topologySpreadConstraints": [SPREAD | {"minDomains": 2}]},
        "topologySpreadConstraints[0]",
        "DoNotSchedule",
    ),
    "no name server": ({"dnsPolicy": "None"}, "dnsPolicy", "dnsConfig.nameservers"),
    "names of the node's network": ({"dnsPolicy": "ClusterFirstWithHostNet"}, "dnsPolicy", ""),
}


@every_case("case", REFUSED)
def test_what_is_not_for_a_pod_of_an_engine_is_refused_by_its_field(case: str) -> None:
    template, field, fix = REFUSED[case]
    refused = refusal(podTemplate=template)
    assert refused.field == f"spec.podTemplate.{field}"
    assert fix in refused.fix


def test_all_that_is_wrong_with_a_template_is_said_at_once() -> None:
    many = sidecar(env=[{"name": "A"}] * 2, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    said = str(refusal(podTemplate=many | {"dnsPolicy": "None", "labels": {"a b": "c"}}))
    for field in ("labels", "containers[0].env[1].name", "containers[0].volumeMounts[0].name", "dnsPolicy"):
        assert f"spec.podTemplate.{field}: " in said
    with pytest.raises(NotPermitted) as caught:
        check_pod_policy(
            deployment(
                podTemplate=sidecar(envFrom=[{"secretRef": {"name": "db"}}]) | {"serviceAccountName": "admin"}
            ).spec,
            PodPolicy(template_fields=()),
            "ml",
        )
    for field in ("containers", "containers[0].envFrom[0].secretRef.name", "serviceAccountName"):
        assert f"spec.podTemplate.{field}: " in str(caught.value)


WHOLE: dict[str, Any] = {
    **sidecar(resources={"requests": {"cpu": "500m"}}, ports=[{"containerPort": 9000}]),
    **first(restartPolicy="Always"),
    **nodes({"matchExpressions": [IN_A], "matchFields": [NOT_N]}),
    "topologySpreadConstraints": [SPREAD],
    "startupProbe": {"failureThreshold": 9, "periodSeconds": 7, "initialDelaySeconds": 3},
    "readinessProbe": {"timeoutSeconds": 2, "httpGet": {"path": "/mine"}},
    "securityContext": {"runAsUser": 7, "supplementalGroups": [8]},
    "terminationGracePeriodSeconds": 5000,
    "schedulerName": "gang",
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["10.0.0.1"]},
    "hostAliases": [{"ip": "10.0.0.2", "hostnames": ["mirror"]}],
}
"""A template with each of these fields."""


def test_every_part_is_merged_into_the_operators() -> None:
    assert WHOLE.keys() | {"livenessProbe"} == POLICED_FIELDS
    plain, found = pod(), pod(**WHOLE)
    engine, log = found["containers"]
    before = plain["containers"][0]
    assert {name for name in engine if engine[name] != before[name]} == {"startupProbe", "readinessProbe"}
    assert engine["startupProbe"] == before["startupProbe"] | WHOLE["startupProbe"]
    assert engine["readinessProbe"]["httpGet"] == before["readinessProbe"]["httpGet"] | {"path": "/mine"}
    assert log["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert log["ports"] == [{"containerPort": 9000, "protocol": "TCP"}]
    assert found["initContainers"][0]["restartPolicy"] == "Always"
    assert found["securityContext"] == plain["securityContext"] | WHOLE["securityContext"]
    [spread] = found["topologySpreadConstraints"]
    selector = {"app.kubernetes.io/managed-by": "plimsoll", "plimsoll.dev/deployment": "llama"}
    assert spread == SPREAD | {"labelSelector": {"matchLabels": selector}}
    for name in ("terminationGracePeriodSeconds", "schedulerName", "dnsPolicy", "dnsConfig", "hostAliases"):
        assert found[name] == WHOLE[name]
    for name in ("volumes", "tolerations", "automountServiceAccountToken", "enableServiceLinks"):
        assert found[name] == plain[name]


def test_a_short_end_is_no_shorter_than_requests_need_and_a_longer_start_counts_for_the_rollout() -> None:
    assert pod(terminationGracePeriodSeconds=1) == pod()
    longer = {"startupProbe": WHOLE["startupProbe"]}
    body = rendered(to_workload_options(deployment(podTemplate=longer)))
    assert body["spec"]["progressDeadlineSeconds"] == 3 + 7 * 9 + 600


def test_a_change_to_false_is_a_change_of_the_inputs() -> None:
    given = [sidecar(securityContext={"readOnlyRootFilesystem": each}) for each in (True, False, None)]
    marks = {str(rendered(to_workload_options(deployment(podTemplate=each)))["metadata"]) for each in given}
    assert len(marks) == len(given)


KEYS = st.sampled_from(["containers", "env", "volumes", "securityContext", "hostAliases", "dnsPolicy"])
VALUES = st.one_of(st.integers(0, 3), st.booleans(), st.sampled_from(["a", "b"]))
ENTRIES = st.lists(
    st.builds(lambda key, value: {"name": key, "ip": key, "image": value}, st.sampled_from("abc"), VALUES),
    max_size=3,
    unique_by=lambda entry: entry["name"],
)
TREES = st.dictionaries(KEYS, st.one_of(VALUES, ENTRIES, st.dictionaries(st.sampled_from("xyz"), VALUES)))


@given(TREES, TREES)
@settings(max_examples=examples(300), deadline=None)
def test_merging_nothing_changes_nothing_and_merging_twice_is_merging_once(own: Any, patch: Any) -> None:
    assert merged(own, {}) == own
    assert merged({}, patch) == patch
    once = merged(own, patch)
    assert merged(once, patch) == once
    assert merged(once, once) == once
    kept = {name: value for name, value in own.items() if name not in patch}
    assert {name: once[name] for name in kept} == kept


@given(st.lists(st.sampled_from(["engine", "a", "log"]), unique=True))
@settings(max_examples=examples(30), deadline=None)
def test_what_is_the_operators_own_wins_whatever_is_merged(names: list[str]) -> None:
    """The checks refuse such a template; what slips through changes nothing."""
    foreign = {
        "containers": [{"name": name, "image": "foreign", "command": ["sh"]} for name in names],
        "automountServiceAccountToken": True,
    }
    given = options()
    own = rendered(given)["spec"]["template"]["spec"]
    found = rendered(replace(given, pod=replace(given.pod, merged=foreign)))["spec"]["template"]["spec"]
    engine, *others = found["containers"]
    assert engine == own["containers"][0]
    assert [each["name"] for each in others] == [name for name in names if name != "engine"]
    assert found["automountServiceAccountToken"] is False


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "rdma/ib"]),
    st.sampled_from(["1", "2", "3"]),
    max_size=3,
)
CONTAINERS = st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=4)


@given(CONTAINERS, st.lists(AMOUNTS, max_size=3))
@settings(max_examples=examples(150), deadline=None)
def test_what_is_planned_for_a_pod_is_what_the_scheduler_counts_of_it(before: Any, others: Any) -> None:
    """The reading of other pods adds up what they request, too; it shares no code with the planner's sum."""
    template = {
        "initContainers": [
            {"name": f"i{at}", "image": "a", "resources": {"limits": each}}
            | ({"restartPolicy": "Always"} if stays else {})
            for at, (each, stays) in enumerate(before)
        ],
        "containers": [
            {"name": f"c{at}", "image": "a", "resources": {"requests": each, "limits": each}}
            for at, each in enumerate(others)
        ],
    }
    wanted = asked(**template)
    _, choice = chosen_pool()
    spec = workload(to_workload_options(deployment(podTemplate=template)), *chosen_pool())["spec"]["template"]["spec"]
    assert wanted.host_need(choice.host) == pod_need({"spec": spec})


def test_a_sidecar_counts_on_nodes_and_the_engine_alone_can_ask_for_less() -> None:
    wide = HostRoom(4000, 64 * GIB, 10)
    where = fleet(replace(node("h", H100, 8), host=wide, host_free=wide))
    log = sidecar(resources={"requests": {"cpu": "3"}})
    (fits,) = plan([tenant(asked())], where)
    (decision,) = plan([tenant(asked(**log))], where)
    assert (len(fits.pools), len(decision.pools)) == (1, 0)
    lacking = next(each for each in decision.rejections if each.reason is Reason.NODE_LACKS_CPU)
    assert dict(lacking.numbers)["asked_millis"] == 5000
    said = [remedy_sentence(each) for each in decision.remedies if each.kind is RemedyKind.LOWER_REQUESTS]
    assert said == [
        "lower spec.podTemplate.resources.requests to 1 CPU and 8.00 GiB of memory: it fits on h100-sxm-80gb then"
    ]


OTHERS: tuple[dict[str, Any], ...] = (
    {},
    {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]},
    {"matchExpressions": [IN_A]},
    {"matchExpressions": [IN_A | {"operator": "NotIn"}]},
    {"matchExpressions": [{"key": ZONE, "operator": "DoesNotExist"}]},
    {"matchExpressions": [{"key": "age", "operator": "Gt", "values": ["5"]}]},
    {"matchExpressions": [{"key": "age", "operator": "Lt", "values": ["5"]}], "matchFields": [NOT_N]},
    {"matchFields": [NOT_N | {"operator": "In"}]},
)
LABELS = st.dictionaries(st.sampled_from([ZONE, "age"]), st.sampled_from(["a", "b", "3", "7"]))


@given(st.lists(st.sampled_from(OTHERS[1:]), max_size=3), LABELS, st.sampled_from(["n", "m"]))
@settings(max_examples=examples(200), deadline=None)
def test_a_node_is_promised_exactly_where_the_pods_affinity_takes_it(terms: Any, labels: Any, name: str) -> None:
    template = nodes(*terms) if terms else {}
    here = node(name, H100, 8)
    here = replace(here, labels=(*here.labels, *labels.items()))
    (decision,) = plan([tenant(asked(**template))], fleet(here))
    required = pod(**template)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    known = {**dict(here.labels), here.selector[0]: here.selector[1]}
    assert bool(decision.pools) == any(takes(term, known, name) for term in required)


def takes(term: dict[str, Any], labels: dict[str, str], name: str) -> bool:
    """Whether a term takes a node, by the words of Kubernetes' documentation."""
    fields = {"metadata.name": name}
    return all(holds(each, labels) for each in term.get("matchExpressions", ())) and all(
        holds(each, fields) for each in term.get("matchFields", ())
    )


def holds(each: dict[str, Any], labels: dict[str, str]) -> bool:
    found, values = labels.get(each["key"]), each.get("values", [])
    number = int(found) if found is not None and found.isdecimal() else None
    return {
        "In": found in values,
        "NotIn": found not in values,
        "Exists": found is not None,
        "DoesNotExist": found is None,
        "Gt": number is not None and bool(values) and values[0].isdecimal() and number > int(values[0]),
        "Lt": number is not None and bool(values) and values[0].isdecimal() and number < int(values[0]),
    }[each["operator"]]


def test_both_affinities_hold_and_what_is_preferred_is_added() -> None:
    term = {"matchExpressions": [IN_A]}
    weighed = {"weight": 7, "podAffinityTerm": NEAR}
    given = nodes(term, {"matchFields": [NOT_N]})
    given["affinity"]["nodeAffinity"][PREFERRED] = [{"weight": 5, "preference": term}]
    given["affinity"] |= {"podAffinity": {PREFERRED: [weighed]}, "podAntiAffinity": {REQUIRED: [NEAR]}}
    own, found = pod()["affinity"], pod(**given)["affinity"]
    [mine] = own["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert found["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [*mine["matchExpressions"], IN_A]},
        {**mine, "matchFields": [NOT_N]},
    ]
    assert found["nodeAffinity"][PREFERRED] == given["affinity"]["nodeAffinity"][PREFERRED]
    assert found["podAffinity"] == {PREFERRED: [*own["podAffinity"][PREFERRED], weighed]}
    assert found["podAntiAffinity"] == {REQUIRED: [NEAR]}


def test_a_fleet_without_a_node_of_the_affinity_is_named_with_what_helps() -> None:
    given = nodes({"matchExpressions": [IN_A, {"key": "age", "operator": "Gt", "values": ["5"]}]})
    (decision,) = plan([tenant(asked(**given))], fleet(node("h", H100, 8)), catalog=[gpu(H100)])
    where = f"{ZONE} in a and age above 5"
    assert f"no node matches spec.podTemplate.affinity ({where})" in {*map(rejection_sentence, decision.rejections)}
    said = [*map(remedy_sentence, decision.remedies)]
    assert any(each.startswith("drop spec.gpu, spec.overrides or the node selector") for each in said)
    assert f"add a node with 1 h100-sxm-80gb and {where}" in said


def test_a_long_affinity_makes_no_long_sentence() -> None:
    many = {"key": ZONE, "operator": "In", "values": [f"zone-{each:04}" for each in range(64)]}
    [rule] = asked(**nodes({"matchExpressions": [many] * 16})).node_rules
    assert len(str(dict(rule.numbers)["where"])) == 303


@every_case(
    ("template", "named"),
    [
        ({"affinity": {"podAntiAffinity": {REQUIRED: [NEAR]}}}, "required podAntiAffinity"),
        ({"affinity": {"podAffinity": {REQUIRED: [NEAR]}}}, "required podAffinity"),
        (
            {"topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "DoNotSchedule"}], "schedulerName": "gang"},
            "topologySpreadConstraints with DoNotSchedule and schedulerName gang",
        ),
        ({"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": NEAR}]}}}, ""),
        ({"topologySpreadConstraints": [SPREAD], "schedulerName": "default-scheduler"}, ""),
        (nodes({"matchExpressions": [IN_A]}), ""),
    ],
)
def test_a_rule_of_the_scheduler_that_nobody_counts_with_is_said(template: dict[str, Any], named: str) -> None:
    said = " ".join(asked(**template).remarks)
    assert said.startswith(f"The planner does not count with {named} in spec.podTemplate:") if named else not said


SMALL = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


@every_case(
    ("item", "template", "refused"),
    [
        ({"max": {"cpu": "4"}}, {}, False),
        ({"max": {"cpu": "4"}}, sidecar(resources=SMALL), False),
        ({"max": {"cpu": "4"}}, sidecar(resources={"limits": {"cpu": "5"}}), True),
        ({"min": {"cpu": "1500m"}}, sidecar(resources=SMALL), True),
        ({"type": "Pod", "max": {"memory": "8Gi"}}, {"resources": {"limits": {"memory": "8Gi"}}}, False),
        (
            {"type": "Pod", "max": {"memory": "8Gi"}},
            {"resources": {"limits": {"memory": "8Gi"}}, **sidecar(resources=SMALL)},
            True,
        ),
        (
            {"type": "Pod", "max": {"memory": "8Gi"}},
            {"resources": {"limits": {"memory": "8Gi"}}, **first(resources=SMALL)},
            False,
        ),
    ],
)
def test_a_limit_range_bounds_each_container_and_all_of_a_pod(
    item: dict[str, Any],
    template: dict[str, Any],
    refused: bool,  # noqa: FBT001 - a table's column
) -> None:
    wanted = asked(**template)
    wanted = replace(wanted, **wanted.filled_in("", read_limit_ranges([limit_range(**item)])["team"]))
    (decision,) = plan([tenant(wanted)], fleet(node("h", H100, 8)))
    on_one = {each.reason for each in decision.rejections if each.split == Split(1)}
    assert (Reason.LIMIT_RANGE_EXCEEDED in on_one, bool(decision.pools)) == (refused, not refused)


def test_what_a_limit_range_gives_a_sidecar_and_what_a_quota_counts_of_it() -> None:
    given = limit_range(defaultRequest={"cpu": "3"}, default={"cpu": "4", "memory": "2Gi"})
    wanted = asked(resources={"limits": {"cpu": "2", "memory": "8Gi"}}, **sidecar())
    alone, filled = wanted, replace(wanted, **wanted.filled_in("", read_limit_ranges([given])["team"]))
    for each, cpu, memory in ((alone, (2000, 2000), (8, 8)), (filled, (5000, 6000), (10, 10))):
        need = each.host_need(USUAL_HOST)
        assert (need.cpu_millis, need.memory_bytes) == (cpu[0], memory[0] * GIB)
        assert each.counted_limits(need) == (cpu[1], memory[1] * GIB)
    [said] = limit_warnings(alone, {"limits.cpu": 9000})
    assert said.endswith("Set spec.podTemplate.resources.limits.cpu, and the same of the further containers.")
    assert limit_warnings(filled, {"limits.cpu": 9000}) == ()
    quota = {"ml": {"limits.cpu": 5000, "nvidia.com/gpu": 8}}
    (decision,) = plan([tenant(filled)], fleet(node("h", H100, 8)), quotas=quota)
    assert decision.missing == 1
