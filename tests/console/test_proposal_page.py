"""The page of a proposal and the answers to it, on a cluster that remembers what was asked of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.api.v1alpha1.inbox import PlacementApprovalSpec
from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.pages.live import deployment, inbox
from plimsoll.console.pages.plain import words
from plimsoll.console.pages.proposal import answer, proposal
from plimsoll.console.views.proposals.inbox import OUTDATED
from plimsoll.console.views.rows import DeploymentRow, LiveRow
from plimsoll.console.views.world import ClusterView
from plimsoll.console.visit import ConsolePage, Redirect
from plimsoll.domain.kubernetes_names import ObjectKey
from tests.support.proposals import (
    ID,
    NAME,
    OTHER_ID,
    SCRIPT,
    FakeCluster,
    Seen,
    approval_of,
    seen,
    visit_of,
)
from tests.support.proposals import proposal as body_of

FORM = {"decision": "approve", "id": ID, "reason": ""}
ASKED = ["may create placementapprovals ml/", "may approve inferencedeployments ml/chat"]


def cluster_with(*bodies: dict[str, object], approvals: tuple[dict[str, object], ...] = ()) -> FakeCluster:
    spec = {"metadata": {"name": "chat", "namespace": "ml"}, "spec": {"concurrency": 4, "replicas": 1}}
    return FakeCluster(
        {
            "placementproposals": list(bodies or (body_of(),)),
            "placementapprovals": list(approvals),
            "inferencedeployments": [spec],
        }
    )


async def shown(cluster: FakeCluster, **how: object) -> Seen:
    visit = visit_of(cluster, **how)  # type: ignore[arg-type]
    return seen(await proposal(visit), visit)


async def answered(cluster: FakeCluster, **fields: str) -> ConsolePage | Redirect:
    return await answer(visit_of(cluster, form=FORM | fields))


async def test_the_page_says_before_and_after_first_and_then_what_changes() -> None:
    page = await shown(cluster_with())
    assert page.html.index("<h1>1 on a100-sxm-80gb x 1 -&gt; 2 on a100-sxm-80gb x 1</h1>") > 0
    for words_ in (
        "replicas 1 2",
        "KV cache in use 93 % 46 %",
        "price per hour $3.43 $6.86 +$3.43/h",
        "Others touched: none",
    ):
        assert words_ in page.text, words_
    assert "expires in 23 h" in page.text
    assert "◆ Open" in page.text


async def test_the_reason_is_explained_and_its_code_leads_to_its_sentence() -> None:
    page = await shown(cluster_with())
    assert "SustainedKvPressure : The KV cache is nearly full." in page.text
    assert "/words#SustainedKvPressure" in {link.get("href") for link in page.all("a")}
    visit = visit_of(cluster_with())
    listed = seen(await words(visit), visit)
    assert "SustainedKvPressure" in {entry.get("id") for entry in listed.all("dt")}


async def test_the_form_names_the_proposal_and_is_shown_only_after_both_rights_were_asked_for() -> None:
    cluster = cluster_with()
    page = await shown(cluster)
    [form] = page.all("form")
    assert (form["method"], form["action"]) == ("post", f"/proposals/ml/{NAME}/answer")
    assert {field.get("name"): field.get("value") for field in page.all("input")}["id"] == ID
    assert [button.get("value") for button in page.all("button") if button.get("name") == "decision"] == [
        "approve",
        "reject",
    ]
    assert [each for each in cluster.asked if each.startswith("may")] == ASKED
    assert cluster.created == []


@pytest.mark.parametrize(
    ("verb", "sentence"),
    [
        ("create", "You may not create placementapprovals.plimsoll.dev in the namespace ml."),
        ("approve", "You do not have the verb approve on the InferenceDeployment ml/chat."),
    ],
)
async def test_a_missing_right_is_named_in_the_place_of_the_form(verb: str, sentence: str) -> None:
    cluster = cluster_with()
    cluster.lacking = frozenset({verb})
    page = await shown(cluster)
    assert sentence in page.text
    assert page.all("form") == []
    assert "The ClusterRole plimsoll-approver has the rights" in page.text


async def test_without_approvals_there_is_no_form_and_the_commands_are_shown() -> None:
    cluster = cluster_with()
    page = await shown(cluster, allow=False)
    assert page.all("form") == []
    assert f"plimsoll approve chat -n ml --proposal {ID}" in page.text
    assert f"plimsoll reject chat -n ml --proposal {ID}" in page.text
    assert "spec: replicas: 2" in page.text
    assert [each for each in cluster.asked if each.startswith("may")] == []


@pytest.mark.parametrize(("decision", "reason"), [("approve", ""), ("reject", "no budget")])
async def test_an_answer_is_created_in_the_persons_own_name(decision: str, reason: str) -> None:
    cluster = cluster_with()
    found = await answered(cluster, decision=decision, reason=reason)
    assert found == Redirect(f"/proposals/ml/{NAME}?answer=chat-x7k2p")
    [made] = cluster.created
    spec = PlacementApprovalSpec.model_validate(made["spec"], strict=False, by_alias=True, by_name=False)
    assert (spec.deployment, spec.proposal, spec.decision, spec.by) == ("chat", ID, decision, "alex")
    assert (spec.reason or "") == reason
    assert [set(each) for each in made["metadata"]["ownerReferences"]] == [{"apiVersion", "kind", "name", "uid"}]


async def test_the_page_after_an_answer_is_live_and_has_no_form_and_the_one_before_is_a_form() -> None:
    cluster = cluster_with(approvals=(approval_of(state=None),))
    visit = visit_of(cluster, answer="chat-x7k2p")
    after = await proposal(visit)
    page = seen(after, visit)
    assert (after.is_live, page.all("form")) == (True, [])
    assert "This page follows the answer chat-x7k2p. Decide again" in page.text
    before = await proposal(visit_of(cluster))
    assert (before.is_live, len((await shown(cluster)).all("form"))) == (False, 1)
    assert SCRIPT not in (await shown(cluster, answer=SCRIPT)).html


async def test_a_stale_id_is_refused_with_a_sentence_and_nothing_is_written() -> None:
    cluster = cluster_with()
    visit = visit_of(cluster, form=FORM | {"id": OTHER_ID})
    found = await answer(visit)
    assert isinstance(found, ConsolePage)
    assert found.status == 409
    assert f"Nothing was written: your answer is for proposal {OTHER_ID}" in seen(found, visit).text
    assert cluster.created == []


@pytest.mark.parametrize(
    "body",
    [body_of(expiresAt="2026-11-24T01:30:00Z"), body_of("Invented"), body_of(alternatives="no list")],
    ids=["expired", "unknown state", "half-written"],
)
async def test_a_proposal_that_cannot_be_decided_is_not_answered(body: dict[str, object]) -> None:
    cluster = cluster_with(body)
    found = await answered(cluster)
    assert isinstance(found, ConsolePage)
    assert (found.status, cluster.created) == (409, [])
    assert (await shown(cluster)).all("form") == []


async def test_a_proposal_that_is_gone_is_not_answered() -> None:
    cluster = cluster_with()
    cluster.objects["placementproposals"] = []
    visit = visit_of(cluster, form=FORM)
    found = await answer(visit)
    assert isinstance(found, ConsolePage)
    assert found.status == 409
    assert "Nothing was written: this proposal does not stand any more." in seen(found, visit).text
    assert cluster.created == []


@pytest.mark.parametrize("fields", [{"decision": ""}, {"decision": "delete"}, {"reason": "x" * 1025}])
async def test_a_form_that_no_page_of_ours_sends_is_refused(fields: dict[str, str]) -> None:
    cluster = cluster_with()
    with pytest.raises(ConsoleRefusal) as refused:
        await answered(cluster, **fields)
    assert (refused.value.status, cluster.created) == (422, [])


async def test_what_the_policy_says_is_shown_as_a_sentence() -> None:
    cluster = cluster_with()
    cluster.refusals["create"] = ClusterRefused("create", 403, '"alex" may not approve it')
    visit = visit_of(cluster, form=FORM)
    found = await answer(visit)
    assert isinstance(found, ConsolePage)
    assert (found.status, found.is_live) == (403, False)
    assert 'The API server refused your answer: "alex" may not approve it' in seen(found, visit).text


@pytest.mark.parametrize("state", ["Waiting", "CarriedOut", "Rejected", "Stale", "Expired"])
async def test_the_state_of_an_answer_is_shown(state: str) -> None:
    page = await shown(cluster_with(approvals=(approval_of(state=state),)))
    assert f"{state} approve by alex, 2026-11-24 01:59:00 UTC It is {state}." in page.text


async def test_an_answer_that_nobody_has_seen_yet_waits_and_answers_to_others_are_left_out() -> None:
    others = (approval_of("a", proposal=OTHER_ID, by="olga"), approval_of("b", deployment="embed", by="sam"))
    page = await shown(cluster_with(approvals=(approval_of(state=None), *others)))
    assert "Waiting approve by alex" in page.text
    assert "The operator has not answered yet." in page.text
    assert "olga" not in page.text
    assert "sam" not in page.text


async def test_a_person_who_may_not_list_answers_reads_which_right_is_missing() -> None:
    cluster = cluster_with()
    cluster.refusals["list placementapprovals"] = ClusterRefused("list", 403, "forbidden")
    page = await shown(cluster, answer="chat-x7k2p")
    assert "You may not list placementapprovals.plimsoll.dev in the namespace ml" in page.text
    assert "The address names the answer chat-x7k2p" in page.text


async def test_an_approved_proposal_can_only_be_rejected_and_a_rejected_one_only_approved() -> None:
    for state, verdict in (("Approved", "reject"), ("Rejected", "approve")):
        page = await shown(cluster_with(body_of(state)))
        named = [button.get("value") for button in page.all("button") if button.get("name") == "decision"]
        assert named == [verdict]


async def test_a_proposal_that_is_gone_keeps_its_answers() -> None:
    cluster = cluster_with(approvals=(approval_of(state="CarriedOut"),))
    cluster.objects["placementproposals"] = []
    visit = visit_of(cluster)
    page = await proposal(visit)
    assert page.status == 200
    assert "CarriedOut approve by alex" in seen(page, visit).text
    cluster.objects["placementapprovals"] = []
    assert (await proposal(visit)).status == 404


@pytest.mark.parametrize("name", ["../../../api/v1/secrets", "UPPER", "", "a%2fb", SCRIPT])
async def test_what_is_no_name_is_never_asked_for(name: str) -> None:
    cluster = cluster_with()
    visit = visit_of(cluster, name)
    page = await proposal(visit)
    assert (page.status, cluster.asked) == (404, [])
    assert SCRIPT not in seen(page, visit).html
    found = await answer(visit_of(cluster, name, form=FORM))
    assert isinstance(found, ConsolePage)
    assert (found.status, cluster.asked) == (409, [])


HOSTILE = body_of(
    deployment=SCRIPT,
    summary=SCRIPT,
    reason=SCRIPT,
    message=SCRIPT,
    change=SCRIPT,
    figures=[{"name": SCRIPT, "value": SCRIPT}],
    bill={"before": SCRIPT[:24], "after": "NaN", "summary": SCRIPT},
    touches=[{"deployment": SCRIPT, "gpuType": SCRIPT, "replicas": 1, "action": SCRIPT}],
    alternatives=[{"gpuType": SCRIPT, "tensorParallel": 1, "reason": SCRIPT}],
    to=[{"gpuType": SCRIPT, "tensorParallel": 1, "replicas": 2}],
)


@pytest.mark.parametrize("allow", [True, False], ids=["with approvals", "read-only"])
async def test_a_script_stays_text_everywhere(allow: bool) -> None:  # noqa: FBT001 - a parameter
    cluster = cluster_with(HOSTILE, approvals=(approval_of(deployment=SCRIPT, by=SCRIPT, reason=SCRIPT),))
    page = await shown(cluster, allow=allow, person=SCRIPT)
    assert "<script>alert" not in page.html
    assert all("src" in script for script in page.all("script"))
    assert SCRIPT in page.text, "it is shown as text"


@pytest.mark.parametrize("value", [None, 7, [], {}, "x" * 5000, [{"deep": [{}]}]], ids=str)
async def test_no_half_written_field_breaks_the_page_and_the_whole_one_has_no_complaint(value: object) -> None:
    whole = body_of()
    for name in set(whole) - {"metadata", "apiVersion", "kind"}:
        assert (await shown(cluster_with({**whole, name: value}))).text, name
    bare: dict[str, object] = {"metadata": {"name": NAME, "namespace": "ml"}}
    assert "This proposal cannot be answered here: deployment is left out" in (await shown(cluster_with(bare))).text
    assert "is left out" not in (await shown(cluster_with())).text


async def test_the_inbox_groups_and_says_what_a_proposal_costs_with_a_link_to_it() -> None:
    visit = replace(visit_of(cluster_with(), world=ClusterView(proposals=(body_of(),))), path="/")
    page = seen(await inbox(visit), visit)
    assert "Proposals to decide 1" in page.text
    assert "replicas 1 → becomes 2" in page.text
    assert "others touched none" in page.text
    assert f"/proposals/ml/{NAME}" in {link.get("href") for link in page.all("a")}
    expired = body_of(expiresAt="2026-11-24T01:30:00Z")
    quiet = replace(visit, world=ClusterView(proposals=(expired, body_of("Rejected"))))
    assert "Proposals to decide" not in seen(await inbox(quiet), quiet).text


async def test_a_hostile_proposal_does_not_break_the_inbox() -> None:
    bare = {"metadata": {"name": "x", "namespace": "ml", "labels": {"plimsoll.dev/state": "Open"}}}
    visit = replace(visit_of(cluster_with(), world=ClusterView(proposals=(HOSTILE, bare))), path="/")
    page = seen(await inbox(visit), visit)
    assert "Proposals to decide 2" in page.text
    assert "<script>alert" not in page.html


async def test_the_codes_of_a_deployments_page_lead_to_their_sentences() -> None:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "NoReplicaServes",
        "message": "m",
        "lastTransitionTime": "2026-11-24T01:00:00Z",
    }
    rejected = {"gpuType": "l4-24gb", "tensorParallel": 1, "reason": "TooLittleVram", "message": "m"}
    cluster = cluster_with()
    cluster.objects["inferencedeployments"][0]["status"] = {"conditions": [condition], "rejections": [rejected]}
    visit = visit_of(cluster, "chat")
    links = {each.get("href") for each in seen(await deployment(visit), visit).all("a")}
    assert {"/words#NoReplicaServes", "/words#TooLittleVram"} <= links


async def test_the_page_of_a_deployment_links_its_open_proposal_only() -> None:
    other = body_of(deployment="embed")
    world = ClusterView(proposals=(other,))
    visit = replace(visit_of(cluster_with(), "chat"), world=world)
    link = f"/proposals/ml/{NAME}"
    assert link not in {each.get("href") for each in seen(await deployment(visit), visit).all("a")}
    open_ = replace(visit, world=ClusterView(proposals=(body_of(),)))
    assert link in {each.get("href") for each in seen(await deployment(open_), open_).all("a")}


async def test_the_page_of_an_older_proposal_says_so_and_the_newest_one_does_not() -> None:
    key = ObjectKey("ml", "chat")
    live = LiveRow("Recommend", "ArrivalsExceedCapacity", "3 replicas are needed.", proposal_id=OTHER_ID)
    for known, is_said in ((OTHER_ID, True), (ID, False)):
        row = DeploymentRow(key, "u", "1", "model", is_behind=False, live=replace(live, proposal_id=known))
        page = await shown(cluster_with(), world=ClusterView(rows={key: row}))
        assert (OUTDATED in page.text) is is_said
    assert OUTDATED not in (await shown(cluster_with())).text
