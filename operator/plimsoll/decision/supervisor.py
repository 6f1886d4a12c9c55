"""The supervisor of a pass: a shell measures its pieces of work, shares the time, and notes exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TypeVar

from plimsoll.decision.deployment import Deployment
from plimsoll.status.record.report import DeploymentProblem

T = TypeVar("T")

_QUOTED_CHARACTERS = 300


class PassStep(StrEnum):
    """The steps of a pass that handle one object; the value is the reason in its conditions."""

    READ = "ReadFailed"
    OBSERVE = "ObserveFailed"
    LISTEN = "ListenFailed"
    PLAN = "PlanFailed"
    RENDER = "RenderFailed"
    WRITE = "WriteFailed"
    EVENTS = "EventsFailed"


_DOING = {
    PassStep.READ: "Reading the spec",
    PassStep.OBSERVE: "Reading what the engines report",
    PassStep.LISTEN: "Deciding about the number of replicas",
    PassStep.PLAN: "Planning its place",
    PassStep.RENDER: "Rendering the objects",
    PassStep.WRITE: "Writing the objects",
    PassStep.EVENTS: "Recording events",
}


def fault_problem(step: PassStep, error: str) -> DeploymentProblem:
    """Return the problem that an object's conditions report after an exception. ``error`` names it."""
    text = (
        f"{_DOING[step]} failed: {error}. Nothing of this object is changed meanwhile; other objects are "
        "not affected. It is tried again after a pause that grows, and at once when the spec changes."
    )
    return DeploymentProblem(step, text, permanent=True)


def error_words(error: BaseException) -> str:
    """Return what a status quotes of an exception."""
    return f"{type(error).__name__}: {error}"[:_QUOTED_CHARACTERS]


class PassSupervisor:
    """The supervisor of a pass if nobody watches it: all work is done at once, and an exception becomes words."""

    def spend(self, work: Callable[[], T], *deployments: Deployment) -> T:  # noqa: ARG002 - nobody counts
        """Do some work for these deployments, and return its result."""
        return work()

    def planned(self, work: Callable[[], T]) -> T:
        """Do the work of the plan of all deployments."""
        return work()

    def first(self) -> Sequence[Deployment]:
        """Return the deployments whose demands are read one by one before the plan."""
        return ()

    def waits(self, deployment: Deployment) -> DeploymentProblem | None:  # noqa: ARG002 - nobody waits
        """Return why the plan of a deployment waits for another pass; None: it does not."""
        return None

    def failed(self, step: PassStep, deployment: Deployment, error: BaseException) -> DeploymentProblem:  # noqa: ARG002 - not kept
        """Take note of an exception, and return the problem that the deployment's status reports."""
        return fault_problem(step, error_words(error))

    def complain(self, about: str, error: Exception) -> None:
        """Take note of an exception that changes no decision: what failed is advice."""

    def beat(self, at: str) -> None:
        """Take note of where the work is."""
