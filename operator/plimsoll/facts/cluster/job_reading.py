"""Reads the pods of a Job: the address of the one that runs, and why one has failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Body = Mapping[str, Any]

LONGEST_WORDS = 600
"""Characters of a pod's last words: they are the pod's own, and go into a status."""


def oldest_first(pods: Sequence[Body], job: str) -> list[Body]:
    """Return the pods that the Job of this uid has made. Anybody may write its label on a pod."""
    return sorted((each for each in pods if _controller(each) == job), key=_born)


def running_address(pods: Sequence[Body]) -> str:
    """Return the address of the youngest pod that runs; empty if none does."""
    running = [each["status"] for each in pods if (each.get("status") or {}).get("phase") == "Running"]
    return str(running[-1].get("podIP") or "") if running else ""


def last_failure(pods: Sequence[Body]) -> str:
    """Return why the youngest pod that failed did so, in its own last line; empty if none failed."""
    return next((words for each in reversed(pods) if (words := _last_words(each))), "")


def _last_words(pod: Body) -> str:
    status = pod.get("status") or {}
    if status.get("phase") != "Failed":
        return ""
    all_of_it = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    ended = [(each.get("state") or {}).get("terminated") or {} for each in all_of_it]
    said = next((str(each["message"]) for each in ended if each.get("message")), "")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    words = lines[-1].removeprefix("error: ") if lines else str(status.get("message") or status.get("reason") or "")
    return words[:LONGEST_WORDS] or "the pod failed without a word"


def _controller(pod: Body) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(each.get("uid")) for each in owners if each.get("controller")), "")


def _born(pod: Body) -> str:
    return str(pod["metadata"].get("creationTimestamp"))
