"""Links from a deployment to the calculator, the simulator and what-if questions, with its figures filled in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from plimsoll.cli.plans.what_if import what_if_of
from plimsoll.console.asked import grafana_root, logs_template
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.views.calculator.page import calculator_of
from plimsoll.console.views.deployment.page import questions_about
from plimsoll.console.views.rows import row_of
from plimsoll.console.views.simulator import form_of
from plimsoll.console.views.what_if_links import change_of
from plimsoll.domain.decisions.outcomes import Remedy
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.placement.explain import remedy_sentence
from tests.console.test_candidates import rejection, status_with
from tests.support.console_pages import Answering, chat, deployment_page, page_of, world_of

Query = dict[str, list[str]]

ROOT = Path(__file__).resolve().parents[2]


def asked(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> dict[str, Query]:
    """The questions' parameters by path."""
    body = chat()
    body["status"] = body["status"] if status is None else status
    found = questions_about(row_of(body), body["spec"] if spec is None else spec)
    return {urlsplit(each.url).path: parse_qs(urlsplit(each.url).query) for each in found}


def test_the_calculator_has_the_model_the_load_and_the_gpu() -> None:
    spec, query = chat()["spec"], asked()["/calculator"]
    found = calculator_of({name: tuple(values) for name, values in query.items()})
    assert found.fault is None
    assert found.answer is not None
    assert query["model"] == [spec["model"]["name"]]
    assert query["gpu"] == ["l4-24gb"]
    assert (query.get("concurrency"), query.get("context-length")) == (
        [str(spec["concurrency"])],
        [str(spec["contextLength"])] if "contextLength" in spec else None,
    )


def test_the_simulator_has_a_whole_question() -> None:
    query = asked()["/simulator"]
    form = form_of("/simulator", lambda name: (query.get(name) or [""])[0])
    assert form.arguments[-1] == chat()["spec"]["model"]["name"]
    assert "--tp=1" in form.arguments


def test_one_more_replica_is_a_question_that_the_plan_reads() -> None:
    (change,) = asked()["/what-if"]["change"]
    assert change == "ml/chat.replicas=2"
    assert what_if_of([change])


def test_a_spot_node_has_the_card_of_its_name() -> None:
    body = chat()
    body["status"]["placement"]["gpuType"] = "l4-24gb-spot"
    assert asked(status=body["status"])["/calculator"]["gpu"] == ["l4-24gb"]


@pytest.mark.parametrize("spec", [{}, {"totalConcurrency": 64}, {"concurrency": "many", "contextLength": None}])
def test_what_cannot_be_asked_is_left_out(spec: dict[str, Any]) -> None:
    found = asked(spec)
    assert "concurrency" not in found["/calculator"]
    assert ("/what-if" in found) is ("totalConcurrency" not in spec)


def test_without_a_place_only_the_calculator_is_offered() -> None:
    assert set(asked(status={})) == {"/calculator"}


async def test_a_candidate_that_fits_can_be_asked_about_and_fixed() -> None:
    _, body = status_with(rejection(Reason.LEFT_RECENTLY, {}, measured=True))
    seen = await deployment_page(body)
    (link,) = [each["href"] or "" for each in seen.all("a") if "overrides" in (each.get("href") or "")]
    changes = parse_qs(urlsplit(link).query)["change"]
    assert changes == ["ml/chat.overrides.gpuType=h100-sxm-80gb", "ml/chat.overrides.tensorParallel=2"]
    assert len(what_if_of(changes)) == 2
    assert "spec: overrides: gpuType: h100-sxm-80gb tensorParallel: 2" in seen.text


UNSAYABLE: list[dict[str, Any]] = [{"gpuType": "h100-sxm-80gb-spot"}, {"pipelineParallel": 2}]


@pytest.mark.parametrize("change", [*UNSAYABLE, {"reason": "StartFailed"}])
async def test_what_no_spec_can_say_and_what_does_not_fit_is_not_offered(change: dict[str, Any]) -> None:
    _, body = status_with(rejection(Reason.LEFT_RECENTLY, {}, measured=True))
    (usual,) = body["status"]["rejections"]
    body["status"]["rejections"] = [usual | change]
    seen = await deployment_page(body)
    assert "overrides" not in seen.text


async def test_grafana_is_linked_where_its_address_is_given_with_the_variables_of_the_charts_dashboard() -> None:
    settings = ConsoleSettings(grafana_url="https://grafana.example/root")
    seen = await deployment_page(chat(), settings=settings)
    (link,) = [each["href"] or "" for each in seen.all("a") if "grafana" in (each.get("href") or "")]
    assert link == "https://grafana.example/root/d/plimsoll?var-namespace=ml&var-deployment=chat"
    dashboard = json.loads((ROOT / "charts" / "plimsoll" / "dashboards" / "plimsoll.json").read_text(encoding="utf-8"))
    names = {each["name"] for each in dashboard["templating"]["list"]}
    assert dashboard["uid"] == "plimsoll"
    assert {"namespace", "deployment"} <= names
    assert "Grafana" not in (await deployment_page(chat())).text


def test_the_address_of_grafana_is_one_of_a_web_page() -> None:
    assert grafana_root("https://grafana.example/") == "https://grafana.example"
    assert grafana_root(None) is None
    for wrong in ("grafana", "javascript:alert(1)", "https://", "http://[::1", "file:///etc/passwd"):
        with pytest.raises(InvalidInput, match="--grafana-url"):
            grafana_root(wrong)


async def test_logs_are_commands_to_copy_and_links_where_an_address_is_given() -> None:
    seen = await deployment_page(chat())
    for command in (
        "kubectl logs -n ml -l plimsoll.dev/deployment=chat --all-containers --prefix --tail=200",
        "kubectl events -n ml --for inferencedeployments.plimsoll.dev/chat",
        "kubectl describe pods -n ml -l plimsoll.dev/deployment=chat",
    ):
        assert command in seen.text
    assert "its logs" not in seen.text
    settings = ConsoleSettings(logs_url="https://logs.example/{namespace}?q={deployment}/{pod}")
    linked = await deployment_page(chat(), settings=settings)
    assert [each["href"] for each in linked.all("a") if "logs." in (each.get("href") or "")] == [
        "https://logs.example/ml?q=chat/chat-0"
    ]


def test_the_address_of_logs_has_known_names_only() -> None:
    assert logs_template("https://l.example/?q={pod}") == "https://l.example/?q={pod}"
    assert logs_template("") is None
    for wrong in ("{pod}", "https://l/{node}", "https://l/{pod", "https://l/{pod.__class__}", "https://l/{}", "logs"):
        with pytest.raises(InvalidInput, match="--logs-url"):
            logs_template(wrong)


FIGURES: dict[str, Any] = {
    "from": 131_072, "to": 65_536, "gpus": 2, "gpu_type": "h100-sxm-80gb", "nodes": 3, "group": "big",
    "price": "unknown", "replicas": 1, "missing": 1,
}  # fmt: skip

ASKED = {
    RemedyKind.REDUCE_CONTEXT: "ml/chat.contextLength=65536",
    RemedyKind.REDUCE_CONCURRENCY: "ml/chat.concurrency=65536",
    RemedyKind.REDUCE_SEQUENCES: "ml/chat.engine.maxSequences=65536",
    RemedyKind.KV_CACHE_FP8: "ml/chat.kvCache.precision=fp8",
    RemedyKind.WEIGHTS_FP8: "ml/chat.precision=fp8",
    RemedyKind.WEIGHTS_FP16: "ml/chat.precision=fp16",
    RemedyKind.ADD_GPUS: "+1 h100-sxm-80gb x2",
    RemedyKind.ADD_NODES: "+3 h100-sxm-80gb x2",
}
"""Remedies that are a change of a spec or of nodes. The others are done elsewhere: GPUs freed, a quota, a driver."""


@pytest.mark.parametrize("kind", ASKED)
def test_a_remedy_is_a_question_that_the_plan_reads(kind: RemedyKind) -> None:
    sentence = remedy_sentence(Remedy(kind, tuple(FIGURES.items())))
    change = change_of(sentence, ObjectKey("ml", "chat"))
    assert change == ASKED[kind], sentence
    assert what_if_of([change])


def test_what_is_no_remedy_is_no_question() -> None:
    for words in ("", "free 2 h100-sxm-80gb on one node: it fits there once they are free", "set <script> to x"):
        assert change_of(words, ObjectKey("ml", "chat")) == ""


@pytest.mark.parametrize("path", ["/", "/deployments/{namespace}/{name}"])
async def test_the_changes_that_help_are_links_that_fill_the_form_in(path: str) -> None:
    body = chat()
    for part in ("placement", "estimate", "pools"):
        del body["status"][part]
    body["status"]["remedies"] = [{"kind": "ReduceContext", "message": "lower spec.contextLength from 4096 to 2048"}]
    cluster = Answering({"inferencedeployments": body})
    seen = await page_of(path, world_of(body), cluster=cluster)
    (link,) = [each["href"] or "" for each in seen.all("a") if "contextLength" in (each.get("href") or "")]
    assert parse_qs(urlsplit(link).query) == {"change": ["ml/chat.contextLength=2048"]}
