"""The part of the demonstration in which the live loop asks, somebody may not answer, and somebody else does."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from testbed.approvals import APPROVER
from testbed.control_plane import ControlPlane
from testbed.engine_queue import Stream
from testbed.engines import Engines
from testbed.story import Story
from testbed.waiting import NotInTime

NAME, NAMESPACE = "llama-70b", "default"

LONG_PROMPTS = Stream(rate=0.275, prompt=8000, output=200, first_token_seconds=1.8, token_seconds=0.065)
"""One and a half times the requests that the performance model lets one replica carry with its promises kept. The times
are about those that the model predicts."""

_LAST_CHANGE = "custom-columns=REPLICAS:.status.replicasSummary,LAST-CHANGE:.status.rebalancing.lastChange"
_COMMAND_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a kubeconfig of their own."""

    name: str
    kubeconfig: Path

    def runs(self, story: Story, *words: str) -> int:
        """Run the command line as this person and show what it prints. Returns its exit status."""
        story.types(shlex.join(("plimsoll", *words)), who=self.name)
        command = [sys.executable, "-m", "plimsoll", *words, "--kubeconfig", str(self.kubeconfig)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMMAND_SECONDS)
        for line in (ran.stdout + ran.stderr).splitlines():
            story.say(line)
        return ran.returncode


def ask_before_a_change(control_plane: ControlPlane, engines: Engines, story: Story) -> None:
    """Tell it. Raises NotInTime when a step does not come true."""
    _load_rises(engines, story)
    somebody_may_not(control_plane, story)
    somebody_may(control_plane, story)


def _load_rises(engines: Engines, story: Story) -> None:
    story.tell("The 70B gets long prompts. Nobody set its rebalancing, so the live loop proposes and does not act")
    engines.stream(f"{NAMESPACE}/{NAME}", LONG_PROMPTS)
    story.say(f"{60 * LONG_PROMPTS.rate:.0f} requests a minute come now, with prompts of {LONG_PROMPTS.prompt} tokens")
    story.wait(lambda: _listed(story, "placementproposals"), "a proposal")
    story.does("get", "placementproposals")


def somebody_may_not(control_plane: ControlPlane, story: Story) -> None:
    """Let Sam try. Raises NotInTime when the API server does not refuse it."""
    story.tell("Sam may approve changes of the 8B only, and the API server refuses the rest")
    control_plane.apply(rights_for("sam", "llama-8b"))
    sam = Person("sam", control_plane.user_kubeconfig("sam"))
    if sam.runs(story, "approve", NAME) == 0 or _listed(story, "placementapprovals"):
        raise NotInTime(f"the API server let sam approve a change of {NAME}")


def somebody_may(control_plane: ControlPlane, story: Story) -> None:
    """Let Lena approve it. Raises NotInTime when it is not carried out."""
    story.tell(f"Lena has the role {APPROVER}, and approves: the operator carries it out and names her")
    story.does("create", "rolebinding", "approvers", f"--clusterrole={APPROVER}", "--user=lena")
    lena = Person("lena", control_plane.user_kubeconfig("lena"))
    story.wait(lambda: _current(story), "a proposal that the live loop makes now")
    if lena.runs(story, "approve", NAME, "--proposal", _current(story), "--reason", "long prompts will stay") != 0:
        raise NotInTime(f"lena could not approve the change of {NAME}")
    story.wait(lambda: _outcome(story) == "CarriedOut", "the approval carried out")
    story.wait(lambda: story.status(NAME).get("readyReplicas", 0) > 1, f"a second replica of {NAME}")
    story.does("get", "infd", NAME, "-o", _LAST_CHANGE)


def leave_a_proposal(engines: Engines, story: Story) -> None:
    """Let the load rise once more, and leave the answer to whoever opens the console. Raises NotInTime."""
    story.tell("The long prompts double, and the next proposal is left to you")
    engines.stream(f"{NAMESPACE}/{NAME}", replace(LONG_PROMPTS, rate=2 * LONG_PROMPTS.rate))
    story.wait(lambda: _listed(story, "placementproposals", "-l", _OPEN), "a second proposal")
    story.does("get", "placementproposals", "-l", _OPEN)


_OPEN = "plimsoll.dev/state=Open"


def _listed(story: Story, plural: str, *more: str) -> list[dict[str, Any]]:
    return list(json.loads(story.kubectl("get", plural, *more, "-o", "json"))["items"])


def _current(story: Story) -> str:
    """Return the id of the proposal that the live loop makes now: while the load rises there may be an older one."""
    return str(story.status(NAME)["rebalancing"].get("proposalId") or "")


def _outcome(story: Story) -> str:
    """Return what became of the only approval; empty while it is not known."""
    made = _listed(story, "placementapprovals")
    return str((made[0].get("status") or {}).get("state") or "") if len(made) == 1 else ""


def rights_for(user: str, deployment: str) -> list[dict[str, Any]]:
    """Return the rights to approve changes of one deployment, as docs/approvals.md writes them."""
    head = {"name": f"approve-{deployment}", "namespace": NAMESPACE}
    group = {"apiGroups": ["plimsoll.dev"]}
    rules = [
        {**group, "resources": ["placementproposals"], "verbs": ["get", "list", "watch"]},
        {**group, "resources": ["placementapprovals"], "verbs": ["get", "list", "watch", "create"]},
        {**group, "resources": ["inferencedeployments"], "resourceNames": [deployment], "verbs": ["approve"]},
    ]
    kind, api = "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"
    return [
        {"apiVersion": api, "kind": "Role", "metadata": head, "rules": rules},
        {
            "apiVersion": api,
            "kind": "RoleBinding",
            "metadata": head,
            "roleRef": {"apiGroup": kind, "kind": "Role", "name": head["name"]},
            "subjects": [{"apiGroup": kind, "kind": "User", "name": user}],
        },
    ]
