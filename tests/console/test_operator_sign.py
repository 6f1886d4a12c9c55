"""The console says when the operator is silent, and says nothing where it works or where nobody may know."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any, cast

import pytest
from rich.console import Console

from plimsoll.adapters.cluster.api_errors import ClusterRefused
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.adapters.cluster.kinds import LEASES, ObjectKind
from plimsoll.app.election.leadership import LAST_PASS_ANNOTATION
from plimsoll.console.asked import settings_from
from plimsoll.console.settings import OPERATOR
from plimsoll.console.sources.reader import PAUSE_SECONDS, REFUSED_SECONDS, Heartbeat
from plimsoll.console.top.frame import picture
from plimsoll.console.views.world import SILENT_SECONDS, ClusterView, OperatorSign, sign_of
from plimsoll.domain.errors import InvalidInput, SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import to_rfc3339
from tests.support.console_pages import page_of
from tests.support.proposals import NOW

Body = dict[str, Any]


def lease(last_pass: float | None = None, renewed: float = NOW) -> Body:
    marks = {} if last_pass is None else {LAST_PASS_ANNOTATION: to_rfc3339(last_pass)}
    times = {"renewTime": to_rfc3339(renewed).replace("Z", ".000000Z")}
    return {"metadata": {"name": "plimsoll", "annotations": marks}, "spec": times}


def complaint(body: Body | None, now: float = NOW) -> str:
    return sign_of(OPERATOR, body, now).complaint(now)


def test_an_operator_that_looked_a_minute_ago_is_no_news() -> None:
    assert complaint(lease(NOW - 61)) == ""
    assert complaint(lease(NOW + 30)) == ""  # its clock is ahead


def test_a_silent_operator_is_named_with_the_age_of_its_last_pass() -> None:
    said = complaint(lease(NOW - 600))
    assert said.startswith("The operator is silent. Its last pass was 10 min ago, ")
    assert said.endswith("kubectl get pods -n plimsoll-system")


def test_passes_count_and_a_process_that_only_renews_its_lease_does_not() -> None:
    assert complaint(lease(NOW - 600, renewed=NOW)) != ""


def test_an_operator_that_does_not_mark_its_passes_counts_by_its_renewals() -> None:
    assert complaint(lease(renewed=NOW - 10)) == ""
    assert "10 min ago" in complaint(lease(renewed=NOW - 600))


def test_without_a_lease_the_option_is_named() -> None:
    assert "no Lease plimsoll-system/plimsoll exists" in complaint(None)
    assert "--operator NAMESPACE/NAME" in complaint(None)


@pytest.mark.parametrize("nonsense", ["", "yesterday", "99999999"])
def test_nonsense_in_the_lease_is_no_silence(nonsense: str) -> None:
    body = lease()
    body["metadata"]["annotations"] = {LAST_PASS_ANNOTATION: nonsense}
    body["spec"]["renewTime"] = nonsense
    assert complaint(body) == ""


def test_a_lease_that_could_not_be_read_since_says_nothing_about_the_time_since() -> None:
    sign = sign_of(OPERATOR, lease(NOW - 5), NOW)
    assert sign.complaint(NOW + 10 * SILENT_SECONDS) == ""


async def test_every_page_has_the_banner_and_only_while_it_is_silent() -> None:
    silent = ClusterView(heard=NOW, operator=sign_of(OPERATOR, lease(NOW - 600), NOW))
    works = replace(silent, operator=sign_of(OPERATOR, lease(NOW - 5), NOW))
    missing = replace(silent, operator=sign_of(OPERATOR, None, NOW))
    for path in ("/", "/fleet", "/deployments", "/pressure", "/accuracy"):
        assert "The operator is silent" in (await page_of(path, silent)).text
        assert "sign of an operator" in (await page_of(path, missing)).text
        for honest in (works, replace(silent, operator=None)):
            seen = (await page_of(path, honest)).text
            assert "The operator is silent" not in seen
            assert "sign of an operator" not in seen


def test_the_terminal_says_it_too() -> None:
    screen = Console(width=200, record=True, file=StringIO())
    screen.print(picture(ClusterView(heard=NOW, operator=sign_of(OPERATOR, lease(NOW - 600), NOW)), {}, NOW, 5))
    assert "The operator is silent" in screen.export_text()


@dataclass
class Played:
    """A cluster that gives one answer after the other; an exception is raised."""

    answers: list[Any]
    asked: list[tuple[ObjectKind, ObjectKey]] = field(default_factory=list)

    async def get(self, kind: ObjectKind, key: ObjectKey) -> Any:
        self.asked.append((kind, key))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_pages_are_made_anew_only_when_the_operator_falls_silent_or_is_heard_again() -> None:
    answers = [lease(NOW - 5), lease(NOW - 20), lease(NOW - 600), lease(NOW - 601), lease(NOW - 1)]
    cluster, changes = Played(list(answers)), list[OperatorSign | None]()
    heartbeat = Heartbeat(cast("Cluster", cluster), OPERATOR, lambda: changes.append(heartbeat.sign), wall=lambda: NOW)
    for _ in answers:
        assert await heartbeat.look() == PAUSE_SECONDS
    assert cluster.asked == [(LEASES, OPERATOR)] * len(answers)
    assert [sign is not None and sign.is_silent for sign in changes] == [False, True, False]


async def test_a_person_without_the_right_is_told_nothing_and_asks_seldom() -> None:
    refusal, changes = ClusterRefused("get lease", 403, "you may not"), list[bool]()
    cluster = Played([refusal, lease(NOW - 600), refusal])
    heartbeat = Heartbeat(
        cast("Cluster", cluster), OPERATOR, lambda: changes.append(heartbeat.sign is None), wall=lambda: NOW
    )
    assert [await heartbeat.look() for _ in range(3)] == [REFUSED_SECONDS, PAUSE_SECONDS, REFUSED_SECONDS]
    assert changes == [False, True]


@pytest.mark.parametrize("fault", [SourceUnavailable("nobody answers"), KeyError("metadata")])
async def test_without_an_answer_the_last_sign_stays(fault: Exception) -> None:
    cluster = Played([lease(NOW - 5), fault])
    heartbeat = Heartbeat(cast("Cluster", cluster), OPERATOR, lambda: None, wall=lambda: NOW)
    await heartbeat.look()
    before = heartbeat.sign
    assert await heartbeat.look() == PAUSE_SECONDS
    assert heartbeat.sign is before is not None


def test_the_lease_is_named_on_the_command_line() -> None:
    assert settings_from((), None, "gpus/load-line", None, None).operator == ObjectKey("gpus", "load-line")
    for wrong in ("", "plimsoll", "gpus/", "gpus/Load Line", "a/b/c"):
        with pytest.raises(InvalidInput, match=r"--operator.*plimsoll-system/plimsoll"):
            settings_from((), None, wrong, None, None)
