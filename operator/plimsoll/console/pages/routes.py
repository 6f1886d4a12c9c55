"""All pages, in the order of the navigation."""

from __future__ import annotations

from plimsoll.console.pages.commands import simulator, what_if
from plimsoll.console.pages.live import deployment, deployments, fleet, inbox, pressure
from plimsoll.console.pages.plain import accuracy, calculator, words
from plimsoll.console.pages.proposal import answer, proposal
from plimsoll.console.visit import View

PAGES = (
    View("/", inbox, "Inbox"),
    View("/fleet", fleet, "Fleet"),
    View("/deployments", deployments, "Deployments"),
    View("/deployments/{namespace}/{name}", deployment),
    View("/proposals/{namespace}/{name}", proposal),
    View("/proposals/{namespace}/{name}/answer", answer, method="POST", writes=True),
    View("/pressure", pressure, "Pressure"),
    View("/calculator", calculator, "Calculator"),
    View("/what-if", what_if, "What if"),
    View("/what-if", what_if, method="POST"),
    View("/simulator", simulator, "Simulator"),
    View("/accuracy", accuracy, "Accuracy"),
    View("/words", words),
)
