"""One table: what each reader says of every state of an InferenceDeployment. The rest of it is in test_gitops.py."""

from __future__ import annotations

import re
from typing import Any

import pytest
from lupa import lua51

from plimsoll.console.views.proposals.inbox import inbox_of
from plimsoll.console.views.rows import row_of
from plimsoll.console.views.states import mark_of
from plimsoll.console.views.world import ClusterView
from plimsoll.domain.public_words import LEFT_OUT_ON_PURPOSE
from plimsoll.status.severity import ALERTS, PATIENCE_SECONDS, Pressure, Severity, State
from tests.states.states import BEGINS, CASES, PAGE, ROOT, Case, definition, page_text
from tests.support.alerting import RULES
from tests.support.tables import every_case

FULL_FROM = 0.9

SCRIPTS = ROOT / "examples" / "08-gitops"


def health(kind: str, body: dict[str, Any]) -> tuple[str, str]:
    """Status and message by the script for Argo CD, in the Lua that Argo CD speaks (5.1)."""
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(body, recursive=True)
    script = SCRIPTS / ("argocd-health.lua" if kind == "InferenceDeployment" else f"argocd-health-{kind.lower()}.lua")
    found = lua.execute(script.read_text(encoding="utf-8"))
    return str(found["status"]), str(found["message"])


def conditions_of(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["type"]: each for each in body.get("status", {}).get("conditions", ())}


@pytest.mark.parametrize(
    ("kv_share", "waiting", "is_full"), [(0.9, 1.0, True), (0.899, 1.0, False), (0.9, 0.9, False), (1.0, 0.0, False)]
)
def test_a_cache_is_full_from_nine_tenths_if_one_waits(kv_share: float, waiting: float, *, is_full: bool) -> None:
    assert Pressure(kv_share, waiting).is_full is is_full


@every_case("case", CASES, ids=[each.name for each in CASES])
def test_the_condition_ready_and_the_event_say_it(case: Case) -> None:
    ready = conditions_of(case.body()).get("Ready", {"status": "-", "reason": "-"})
    assert f"{ready['status']} {ready['reason']}" == case.ready
    assert {note.reason for note in case.events()} == set(case.event.split())


@every_case("case", CASES, ids=[each.name for each in CASES])
def test_every_condition_and_every_warning_says_why_and_what_helps(case: Case) -> None:
    for kind, each in conditions_of(case.body()).items():
        assert len(each["message"]) > 10, kind
        is_well = each["status"] == "True" and kind not in ("Stalled", "Reconciling", "Troubled")
        assert is_well or re.search("What helps: |What starts one: ", each["message"]), f"{kind}: {each['message']}"
    assert all("What helps: " in note.message for note in case.events() if note.warning)


@every_case("case", CASES, ids=[each.name for each in CASES])
def test_argo_cd_says_it(case: Case) -> None:
    status, message = health("InferenceDeployment", case.body())
    assert status == case.argo
    assert message


@every_case("case", CASES, ids=[each.name for each in CASES])
def test_the_console_says_it_by_word_and_colour(case: Case) -> None:
    mark = mark_of(row_of(case.body()))
    assert (mark.word, mark.kind, mark.severity) == (case.word, case.kind, case.severity)


@every_case("case", CASES, ids=[each.name for each in CASES])
def test_the_printer_columns_say_it(case: Case) -> None:
    (version,) = definition()["spec"]["versions"]
    columns = {each["name"]: each["jsonPath"] for each in version["additionalPrinterColumns"]}
    shown = {}
    for name in ("Ready", "Reason", "Trouble"):
        path = re.fullmatch(r'\.status\.conditions\[\?\(@\.type=="(\w+)"\)\]\.(\w+)', columns[name])
        assert path is not None
        shown[name] = conditions_of(case.body()).get(path[1], {}).get(path[2], "")
    assert f"{shown['Ready'] or '-'} {shown['Reason'] or '-'}" == case.ready
    assert shown["Trouble"] == case.trouble


@every_case("case", CASES, ids=[each.name for each in CASES])
def test_the_inbox_has_it_exactly_when_its_alert_fires(case: Case) -> None:
    row = row_of(case.body())
    world = ClusterView(rows={row.key: row})
    assert BEGINS is not None
    patience = PATIENCE_SECONDS.get(case.severity)
    if patience is None:
        assert inbox_of(world, BEGINS + 1e9) == ()
        return
    (item,) = inbox_of(world, BEGINS + patience)
    assert item.key == row.key
    assert item.message
    if case.severity is not Severity.OVER:  # an estimate has no beginning
        assert inbox_of(world, BEGINS + patience - 1) == ()


def test_every_state_is_in_the_table() -> None:
    shown = {each.word for each in CASES}
    assert {state.value for state in State} == shown


@pytest.mark.parametrize("severity", ALERTS)
def test_each_severity_has_an_alert_that_waits_as_long_as_the_inbox(severity: Severity) -> None:
    rule = RULES[ALERTS[severity]]
    assert f'plimsoll_deployment_state{{severity="{severity.name.lower()}"}}' in rule.expression
    assert 60 * rule.minutes == PATIENCE_SECONDS[severity]
    assert "unless on (namespace, name)" in rule.expression
    assert "(plimsoll_deployment_acknowledged_until_seconds) > time()" in rule.expression, "what is known rests"
    assert ALERTS.keys() == PATIENCE_SECONDS.keys()


def test_the_alerts_about_nodes_and_caches_have_the_inboxs_bounds() -> None:
    left_out = "|".join(reason.value for reason in LEFT_OUT_ON_PURPOSE)
    assert f'reason!~"{left_out}"' in RULES["PlimsollNodesIgnored"].expression
    assert f">= {FULL_FROM}" in RULES["PlimsollKvCacheOverLine"].expression


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("PlacementProposal", {"metadata": {"labels": {"plimsoll.dev/state": "Open"}}}, "Suspended"),
        ("PlacementProposal", {"metadata": {"labels": {"plimsoll.dev/state": "Approved"}}}, "Healthy"),
        ("PlacementProposal", {"metadata": {"labels": {"plimsoll.dev/state": "Rejected"}}}, "Healthy"),
        ("PlacementProposal", {"metadata": {"deletionTimestamp": "t"}}, "Progressing"),
        ("PlacementProposal", {"metadata": {}}, "Suspended"),
        ("PlacementApproval", {"metadata": {}}, "Progressing"),
        ("PlacementApproval", {"metadata": {}, "status": {"state": "Waiting", "message": "m"}}, "Progressing"),
        ("PlacementApproval", {"metadata": {}, "status": {"state": "CarriedOut", "message": "m"}}, "Healthy"),
        ("PlacementApproval", {"metadata": {}, "status": {"state": "Rejected", "message": "m"}}, "Healthy"),
        ("PlacementApproval", {"metadata": {}, "status": {"state": "Acknowledged", "message": "m"}}, "Healthy"),
        ("PlacementApproval", {"metadata": {}, "status": {"state": "Refused", "message": "m"}}, "Degraded"),
        ("PlacementApproval", {"metadata": {}, "status": {"state": "Stale", "message": "m"}}, "Degraded"),
        ("PlacementApproval", {"metadata": {}, "status": {"state": "Expired", "message": "m"}}, "Degraded"),
    ],
)
def test_argo_cd_knows_proposals_and_approvals(kind: str, body: dict[str, Any], expected: str) -> None:
    status, message = health(kind, body)
    assert status == expected
    assert message


def test_every_kind_of_the_chart_has_a_script_and_the_readme_names_it() -> None:
    kinds = [path.name.removesuffix(".yaml").split("_")[1] for path in sorted((ROOT / "crds").glob("*.yaml"))]
    assert kinds == ["inferencedeployments", "placementapprovals", "placementproposals"]
    readme = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in SCRIPTS.glob("*.lua")) == [
        "argocd-health-placementapproval.lua",
        "argocd-health-placementproposal.lua",
        "argocd-health.lua",
    ]
    assert all(path.name in readme for path in SCRIPTS.glob("*.lua"))


def test_the_page_has_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_text(), "run python -m scripts.update_goldens"
