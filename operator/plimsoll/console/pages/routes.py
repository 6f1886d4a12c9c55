"""All pages, in the order of the navigation."""

from __future__ import annotations

from plimsoll.console.pages.accuracy import accuracy
from plimsoll.console.pages.deployment import deployment
from plimsoll.console.pages.deployments import deployments
from plimsoll.console.pages.fleet import fleet
from plimsoll.console.pages.inbox import inbox
from plimsoll.console.pages.pressure import pressure
from plimsoll.console.pages.simulator import simulator
from plimsoll.console.pages.what_if import what_if
from plimsoll.console.visit import View

PAGES = (
    View("/", inbox, "Inbox"),
    View("/fleet", fleet, "Fleet"),
    View("/deployments", deployments, "Deployments"),
    View("/deployments/{namespace}/{name}", deployment),
    View("/what-if", what_if, "What if"),
    View("/what-if", what_if, method="POST"),
    View("/pressure", pressure, "Pressure"),
    View("/accuracy", accuracy, "Accuracy"),
    View("/simulator", simulator, "Simulator"),
)
