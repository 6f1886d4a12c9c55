"""The part of the demonstration about approvals: does it notice when a step does not come true?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from testbed import demo_approval
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


def test_sam_has_the_role_that_the_documentation_shows() -> None:
    text = DOCUMENT.read_text()
    shown = yaml.safe_load(text[text.index("rules:\n") :].split("```")[0])

    [role, _] = rights_for("sam", "qwen-7b")
    as_sets = [sorted((key, tuple(sorted(value))) for key, value in rule.items()) for rule in role["rules"]]
    assert as_sets == [sorted((key, tuple(sorted(value))) for key, value in rule.items()) for rule in shown["rules"]]
    assert demo_approval.NAME not in str(role)
