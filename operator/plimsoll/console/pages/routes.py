"""All pages, in the order of the navigation."""

from __future__ import annotations

from plimsoll.console.pages.acknowledge import acknowledge, acknowledging
from plimsoll.console.pages.commands import simulator, simulator_form, what_if, what_if_form
from plimsoll.console.pages.live import deployment, deployments, fleet, inbox, pressure
from plimsoll.console.pages.plain import accuracy, calculator, changes, words
from plimsoll.console.pages.proposal import answer, proposal
from plimsoll.console.pages.replay import replay_form, replayed
from plimsoll.console.sources.commands import RUN_SECONDS
from plimsoll.console.visit import View

_FOLLOWS = f"The answer follows here; it is given up after {RUN_SECONDS:.0f} s."
PLANS = f"The whole cluster is planned without and with your question. {_FOLLOWS}"
SIMULATES = f"The load is simulated. {_FOLLOWS}"
REPLAYS = f"The requests are served once more under each law. {_FOLLOWS}"
"""The words of pages that wait for a command."""

PAGES = (
    View("/", inbox, "Inbox"),
    View("/fleet", fleet, "Fleet"),
    View("/deployments", deployments, "Deployments"),
    View("/deployments/{namespace}/{name}", deployment),
    View("/deployments/{namespace}/{name}/replay", replayed, meanwhile=replay_form, progress=REPLAYS),
    View("/deployments/{namespace}/{name}/acknowledge", acknowledging),
    View("/deployments/{namespace}/{name}/acknowledge", acknowledge, method="POST", writes=True),
    View("/proposals/{namespace}/{name}", proposal),
    View("/proposals/{namespace}/{name}/answer", answer, method="POST", writes=True),
    View("/changes", changes, "Changes"),
    View("/pressure", pressure, "Pressure"),
    View("/calculator", calculator, "Calculator"),
    View("/what-if", what_if, "What if", meanwhile=what_if_form, progress=PLANS),
    View("/what-if", what_if, method="POST", meanwhile=what_if_form, progress=PLANS),
    View("/simulator", simulator, "Simulator", meanwhile=simulator_form, progress=SIMULATES),
    View("/accuracy", accuracy, "Accuracy"),
    View("/words", words),
)
