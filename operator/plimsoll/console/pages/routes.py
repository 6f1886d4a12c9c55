"""All pages, in the order of the navigation."""

from __future__ import annotations

from plimsoll.console.pages.accuracy import accuracy
from plimsoll.console.pages.calculator import calculator
from plimsoll.console.pages.deployment import deployment
from plimsoll.console.pages.deployments import deployments
from plimsoll.console.pages.fleet import fleet
from plimsoll.console.pages.inbox import inbox
from plimsoll.console.pages.pressure import pressure
from plimsoll.console.pages.proposal import answer, proposal
from plimsoll.console.pages.simulator import simulator
from plimsoll.console.pages.what_if import what_if
from plimsoll.console.pages.words import words
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
