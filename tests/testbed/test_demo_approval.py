"""The part of the demonstration about approvals: does it notice when a step does not come true?"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
import yaml

from testbed import demo, demo_approval, demo_routing
from testbed.control_plane import ControlPlane
from testbed.demo_approval import Person, rights_for, somebody_may_not
from testbed.story import Story
from testbed.waiting import NotInTime

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "approvals.md"


class FakeControlPlane:
    """Takes everything."""

    def apply(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        """Take manifests."""

    def user_kubeconfig(self, user: str) -> Path:
        """Name a file."""
        return Path(f"{user}.kubeconfig")


class FakeStory:
    """Finds so many approvals on the cluster."""

    def __init__(self, approvals: int) -> None:
        self._approvals = approvals

    def tell(self, text: str) -> None:
        """Say nothing."""

    def does(self, *arguments: str) -> None:
        """Run nothing."""

    def wait(self, question: Callable[[], object], what: str) -> None:
        """Ask once."""
        assert question(), what

    def status(self, name: str) -> dict[str, Any]:
        """A deployment for which a change is proposed."""
        return {"rebalancing": {"proposalId": "a1"}} if name == demo_approval.NAME else {}

    def kubectl(self, *arguments: str) -> str:
        """List the approvals."""
        assert arguments[:2] == ("get", "placementapprovals")
        return json.dumps({"items": [{}] * self._approvals})


def tried(monkeypatch: pytest.MonkeyPatch, status: int, approvals: int) -> None:
    monkeypatch.setattr(Person, "runs", lambda *_: status)
    somebody_may_not(cast("ControlPlane", FakeControlPlane()), cast("Story", FakeStory(approvals)))


@pytest.mark.parametrize(("status", "approvals"), [(0, 1), (0, 0), (2, 1)])
def test_an_approval_that_is_not_refused_ends_the_story(
    monkeypatch: pytest.MonkeyPatch, status: int, approvals: int
) -> None:
    with pytest.raises(NotInTime, match="let sam approve"):
        tried(monkeypatch, status, approvals)


def test_a_refused_one_lets_it_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    tried(monkeypatch, 2, 0)


def test_lena_names_the_proposal_that_is_made_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the load rises there may be an older one, and the command refuses to choose."""
    asked: list[tuple[str, ...]] = []

    def runs(_person: Person, _story: Story, *words: str) -> int:
        asked.append(words)
        return 2

    story = FakeStory(0)
    monkeypatch.setattr(Person, "runs", runs)
    with pytest.raises(NotInTime, match="lena could not approve"):
        demo_approval.somebody_may(cast("ControlPlane", FakeControlPlane()), cast("Story", story))
    assert asked[0][:4] == ("approve", demo_approval.NAME, "--proposal", "a1")


def test_sam_has_the_role_that_the_documentation_shows() -> None:
    text = DOCUMENT.read_text()
    shown = yaml.safe_load(text[text.index("rules:\n") :].split("```")[0])

    [role, _] = rights_for("sam", "qwen-7b")
    as_sets = [sorted((key, tuple(sorted(value))) for key, value in rule.items()) for rule in role["rules"]]
    assert as_sets == [sorted((key, tuple(sorted(value))) for key, value in rule.items()) for rule in shown["rules"]]
    assert demo_approval.NAME not in str(role)


def steps_of(module: ModuleType) -> list[str]:
    """The headlines that a module of the story prints on its own control plane, in the order of its text."""
    tree = ast.parse(inspect.getsource(module))
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef) and "existing" not in each.name]
    calls = [node for each in functions for node in ast.walk(each) if isinstance(node, ast.Call)]
    called = [node.args[0] for node in calls if isinstance(node.func, ast.Attribute) and node.func.attr == "tell"]
    return [eval(ast.unparse(each), vars(module).copy()) for each in called]  # noqa: S307 - our own constants


def test_the_page_about_the_demonstration_has_its_steps() -> None:
    page = (DOCUMENT.parent / "demo.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```\n(.*?)^```$", page.partition("## What it shows")[2], re.MULTILINE | re.DOTALL)[0]
    *before, lost, load, look_around = steps_of(demo)
    *asked, left = steps_of(demo_approval)
    router, wake = steps_of(demo_routing)
    assert shown.splitlines() == [*before, router, lost, load, *asked, wake, left, look_around]
