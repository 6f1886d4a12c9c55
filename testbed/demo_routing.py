"""The part of the demonstration about a router: it is placed early, falls asleep meanwhile, and a request wakes it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from testbed.control_plane import ControlPlane
from testbed.engines import Engines
from testbed.played_router import PlayedRouter
from testbed.story import Story
from testbed.waiting import NotInTime

NAME, NAMESPACE = "agents", "default"
IDLE_SECONDS = 30
"""The shortest that the API takes. The example leaves the usual half an hour."""

QUESTION = json.dumps({"model": NAME, "prompt": "Good morning"})
_ROUTER = (
    "custom-columns=ROUTER:.status.routing.state,PICKER-ANSWERS:.status.routing.pickerReady,"
    "ENDPOINTS:.status.routing.endpoints,URL:.status.url"
)
_ZERO = "custom-columns=REPLICAS:.status.replicasSummary,READY:.status.conditions[?(@.type=='Ready')].reason"
_CHANGE = "custom-columns=REPLICAS:.status.replicasSummary,LAST-CHANGE:.status.rebalancing.lastChange"


def router_of(control_plane: ControlPlane, engines: Engines) -> PlayedRouter:
    """Return the played router of the deployment, not started yet."""
    return PlayedRouter(control_plane.client, NAMESPACE, NAME, lambda: engines.ready(f"{NAMESPACE}/{NAME}"))


def wake_command(router: PlayedRouter) -> str:
    """Return the command by which a user asks the deployment."""
    return f"curl -s {router.url} -d '{QUESTION}'"


def place_behind_a_router(story: Story) -> None:
    """Tell it. Raises NotInTime when the router does not get ready."""
    story.tell("A model for agents, whose prompts begin alike: an endpoint picker chooses the replica that knows them")
    story.say("(picker and Envoys are rendered and placed, and played like the engines: make test-live runs real ones)")
    story.apply("15-routing")
    idle = json.dumps({"spec": {"rebalancing": {"idleSeconds": IDLE_SECONDS}}})
    story.does("patch", "infd", NAME, "--type=merge", "-p", idle)
    story.wait_serving(NAME)
    story.wait(lambda: _state(story) == "Ready", f"the router of {NAME}")
    story.does("get", "infd", NAME, "-o", _ROUTER)


def wake_from_zero(router: PlayedRouter, story: Story) -> None:
    """Let a request come after the last replica has gone. Raises NotInTime when it is not answered."""
    story.tell(
        f"Nobody has asked the agents' model for {IDLE_SECONDS} s: it holds no GPU now. A request comes, and is held"
    )
    story.wait(lambda: story.status(NAME).get("replicasSummary") == "0/0" and not router.serving(), f"{NAME} at zero")
    story.does("get", "infd", NAME, "-o", _ZERO)
    story.types(wake_command(router))
    with ThreadPoolExecutor(1) as client:
        asked = client.submit(router.ask, QUESTION)
        try:
            story.wait(asked.done, "an answer")
        except BaseException:
            # The end of the block waits for the request, which nobody answers any more.
            router.end()
            raise
    served_by = json.loads(asked.result())["servedBy"]
    if not served_by:
        raise NotInTime(f"no replica of {NAME} answered")
    story.say(f"-> answered by {served_by}, which was started for it")
    story.does("get", "infd", NAME, "-o", _CHANGE)


def _state(story: Story) -> str:
    return str((story.status(NAME).get("routing") or {}).get("state"))
