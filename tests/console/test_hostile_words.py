"""Scripts in names, messages and configurations stay text, on every page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from html import escape
from typing import Any

import pytest

from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.pages.routes import PAGES
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.commands import Ran
from plimsoll.console.views.rows import row_of
from plimsoll.console.views.world import ClusterView, GapKind, KindGap
from plimsoll.console.visit import Redirect, View
from plimsoll.console.web import error_text
from tests.support.console_pages import H100_NODE, Answering, Body, Saying, chat, chat_pod, opened, visit_of, world_of
from tests.support.proposals import ID, NOW, Seen, proposal, read_html

HOSTILE = "\"'><script>alert(1)</script>{{ 7 * 7 }} onload=alert(1) javascript:alert(1)"
FORMAL = frozenset(
    {"fit", "lastTransitionTime", "at", "status", "hourlyPrice", "hourlyPricePerReplica", "state", "resource"}
)
"""Fields whose values the API restricts to a few words, numbers or times."""

REBALANCING = {"decision": "Keep", "reason": "x", "message": "x", "diagnosis": "x", "proposal": "x"}


def poisoned(value: Any) -> Any:
    """The same with hostile words in the place of all words."""
    match value:
        case dict():
            return {key: each if key in FORMAL else poisoned(each) for key, each in value.items()}
        case list():
            return [poisoned(each) for each in value]
        case str():
            return HOSTILE
        case _:
            return value


def hostile_deployment() -> Body:
    body = chat()
    body["status"] = poisoned(body["status"]) | {"rebalancing": poisoned(REBALANCING)}
    body["status"]["placement"]["warnings"] = [HOSTILE]
    body["status"]["remedies"] = [{"kind": "AddGpus", "message": HOSTILE}]
    body["status"]["pools"][0]["name"] = f"{HOSTILE}-tp1"
    body["status"]["conditions"] = [
        {**each, "type": kind} for each, kind in zip(body["status"]["conditions"], ("Ready", "Stalled"), strict=False)
    ]
    body["spec"]["model"] = {"name": HOSTILE}
    body["metadata"] |= {"name": HOSTILE, "namespace": HOSTILE}
    return body


def hostile_world() -> ClusterView:
    waits = {"phase": HOSTILE, "conditions": [{"type": "PodScheduled", "status": "False", "message": HOSTILE}]}
    pod = chat_pod(HOSTILE, node=HOSTILE, **waits)
    pod["metadata"] |= {"namespace": HOSTILE, "labels": dict.fromkeys(pod["metadata"]["labels"], HOSTILE)}
    node = deepcopy(H100_NODE)
    node["metadata"]["name"] = HOSTILE
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = HOSTILE
    odd = {"metadata": {"name": HOSTILE, "labels": {}}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    gaps = (
        KindGap(HOSTILE, GapKind.FORBIDDEN, NOW, HOSTILE, HOSTILE),
        KindGap("nodes", GapKind.LOADING, NOW, "", HOSTILE),
    )
    return world_of(
        hostile_deployment(),
        pods=[pod],
        nodes=[node, odd],
        proposals=(hostile_proposal(),),
        gaps=gaps,
        namespaces=(HOSTILE,),
    )


def hostile_proposal() -> Body:
    body: Body = proposal()
    words = {key: poisoned(body[key]) for key in ("deployment", "change", "summary", "reason", "message")}
    body |= words | {"alternatives": poisoned(body["alternatives"]), "from": poisoned(body["from"])}
    body["metadata"] |= {"name": HOSTILE, "namespace": HOSTILE}
    return body


def plan_document() -> Mapping[str, Any]:
    status = hostile_deployment()["status"]
    place = {"gpuType": HOSTILE, "tensorParallel": 1, "pipelineParallel": 1, "replicas": 1, "hourlyPrice": "1"}
    change = {
        "namespace": HOSTILE,
        "name": HOSTILE,
        "change": "placed",
        "reason": HOSTILE,
        "message": HOSTILE,
        "before": [],
        "after": [place],
        "inFiles": True,
        "withoutFilesToo": False,
        "restarts": True,
        **{key: status[key] for key in ("placement", "estimate", "rejections")},
    }
    bill = {"before": "0", "after": "1", "unpricedPlaces": 0}
    return {"changes": [change], "unchanged": {"count": 0}, "bill": bill, "notes": [HOSTILE], "problems": [HOSTILE]}


def answers() -> dict[str, Body]:
    answer = {"metadata": {"name": HOSTILE}, "spec": {"deployment": HOSTILE, "proposal": ID, "by": HOSTILE}}
    return {
        "inferencedeployments": hostile_deployment(),
        "placementproposals": hostile_proposal(),
        "placementapprovals": answer | {"status": {"state": HOSTILE, "message": HOSTILE}},
    }


QUERY = {"q": (HOSTILE,), "type": (HOSTILE,), "state": (HOSTILE,), "span": (HOSTILE,), "change": (HOSTILE,)}
FORM = {
    "manifest": HOSTILE,
    "changes": HOSTILE,
    "namespace": HOSTILE,
    "decision": "reject",
    "id": ID,
    "reason": HOSTILE,
}
GETS = [view for view in PAGES if view.method == "GET"]


async def page(view: View, *, asks: bool) -> Seen:
    query = {**QUERY, "model": (HOSTILE,), "config": (HOSTILE,)} if asks else {}
    visit = visit_of(
        view,
        hostile_world(),
        query=query,
        form=FORM if view.method == "POST" else {},
        person=HOSTILE,
        cluster=Answering(answers()),
        settings=ConsoleSettings(allow_approvals=True),
        commands=Saying(Ran(2, json.dumps(plan_document()), f"error: {HOSTILE}")),
    )
    found = await opened(view, visit)
    assert isinstance(found, Seen)
    return found


def check(seen: Seen) -> None:
    """The frame's three scripts are the only ones; nothing else runs; the words stand in the page as words."""
    scripts = seen.all("script")
    assert len(scripts) == 3
    assert all(str(each.get("src")).startswith("/static/") for each in scripts)
    for _, attributes in seen.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], attributes
        for name in ("href", "src", "action", "hx-get"):
            assert "javascript:" not in str(attributes.get(name) or "").split("?")[0].lower().split("/")[0]
    assert "<script>alert" not in seen.html
    assert "{{ 7 * 7 }}" in seen.text
    assert "<script>alert(1)</script>" in seen.text


@pytest.mark.parametrize("view", GETS, ids=[view.path for view in GETS])
@pytest.mark.parametrize("asks", [False, True], ids=["plain", "with hostile parameters"])
async def test_a_script_in_any_word_stays_text(view: View, asks: bool) -> None:  # noqa: FBT001 - a parameter
    check(await page(view, asks=asks))


async def test_a_script_in_a_manifest_and_in_the_plans_answer_stays_text() -> None:
    (view,) = (each for each in PAGES if (each.path, each.method) == ("/what-if", "POST"))
    check(await page(view, asks=False))


async def test_an_answer_to_a_proposal_leads_to_a_page_of_the_console() -> None:
    (view,) = (each for each in PAGES if each.writes and each.path.startswith("/proposals/"))
    cluster = Answering({**answers(), "placementproposals": proposal()})
    settings = ConsoleSettings(allow_approvals=True)
    found = await opened(view, visit_of(view, ClusterView(), form=FORM, cluster=cluster, settings=settings))
    assert isinstance(found, Redirect)
    assert found.to.startswith("/proposals/ml/")


def test_a_script_in_a_refusal_stays_text() -> None:
    check(read_html(error_text(f"/{HOSTILE}", ConsoleRefusal(404, HOSTILE, HOSTILE, HOSTILE))))


def test_the_hostile_status_is_read_as_a_whole() -> None:
    """So the words above stand where the operator's words stand, and not in a complaint about them."""
    row = row_of(hostile_deployment())
    assert row.complaints == ()
    assert row.figures is not None
    assert row.remedies == (HOSTILE,)
    assert escape(HOSTILE) != HOSTILE
