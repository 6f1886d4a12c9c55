"""The words that the console explains are those of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.console.guards import Local
from plimsoll.console.pages.routes import PAGES
from plimsoll.console.rendering import Meaning, meanings, meanings_of
from plimsoll.console.sessions import OneSession
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.web import make_app
from plimsoll.rebalance.state.decisions import DecisionReason

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / "operator" / "plimsoll" / "console" / "reasons.md"


def test_the_packaged_copy_is_the_page_of_the_documentation() -> None:
    """``scripts/update_goldens.py`` writes it."""
    assert COPY.read_text(encoding="utf-8") == (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")


def test_every_reason_of_the_live_loop_has_a_sentence() -> None:
    assert {each.value for each in DecisionReason} <= meanings().keys()
    assert all(each.sentence for each in meanings().values())


def test_marks_of_markdown_are_left_out_and_rows_without_advice_are_read() -> None:
    page = "| Word | x |\n|---|---|\n| `One` | See `spec.gpu` and [this](a.md#b). | Do it. |\n| `Two` | Only this. |\n"
    assert meanings_of(page) == {
        "One": Meaning("One", "See spec.gpu and this.", "Do it."),
        "Two": Meaning("Two", "Only this."),
    }


def test_only_answers_to_proposals_and_findings_write() -> None:
    assert [(view.method, view.path) for view in PAGES if view.writes] == [
        ("POST", "/deployments/{namespace}/{name}/acknowledge"),
        ("POST", "/proposals/{namespace}/{name}/answer"),
    ]


@pytest.mark.parametrize("allow", [True, False], ids=["with approvals", "read-only"])
def test_the_application_has_the_route_only_where_approvals_are_allowed(allow: bool) -> None:  # noqa: FBT001 - a parameter
    app = make_app(OneSession(ConsoleSettings(), ""), ConsoleSettings(allow_approvals=allow), Local(1, "secret"))
    paths = {route.resource.canonical for route in app.router.routes() if route.resource is not None}
    assert ("/proposals/{namespace}/{name}/answer" in paths) is allow
    assert "/proposals/{namespace}/{name}" in paths
