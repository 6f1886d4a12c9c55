"""The hint about KV cache in host memory: what counters show, what they bound, and what they do not show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from plimsoll.rebalance.signals.metrics import PodSignals
from plimsoll.rebalance.signals.reading import Reading
from tests.support.engine_loads import Serves, track
from tests.support.live_passes import L40S, LivePasses, Open, live_part

PROMPT, OUTPUT = 3000.0, 60.0
"""Mean tokens: most of the work is that of prompts."""


class Chat:
    """Three replicas that report this load."""

    def __init__(self, there: LivePasses) -> None:
        self.there = there

    @staticmethod
    async def open(opened: Open, **spec: Any) -> Chat:
        """Three replicas that serve, with this spec."""
        there: LivePasses = opened(l40s=4)
        loop = {"mode": "Recommend", "maxReplicas": 4}
        there.put("chat", L40S, replicas=3, contextLength=8192, rebalancing=loop, **spec)
        await there.settle()
        return Chat(there)

    def hints(self, cached: float, rate: float = 4.0, behind: float = 0.0, capacity: int = 100_000) -> list[str]:
        """The hints of a pass. ``cached`` is the share of prompt tokens found, ``behind`` that in host memory."""
        there = self.there
        load = Serves(
            rate=rate, prompt=PROMPT, output=OUTPUT, cached=cached, capacity=capacity, running=6, kv_usage=0.2
        )
        case = there.make()["chat"]
        pods = [pod.name for pod in case.outcome.deployment.placed.around.ready_pods()]
        assert len(pods) == 3
        times = [there.now - 1 - 15 * index for index in reversed(range(60))]
        found = tuple(
            replace(each, at=at, behind_hit_tokens_total=behind * (each.prompt_tokens_total or 0))
            for each, at in zip(track(load).samples, times, strict=False)
        )
        there.passes.live.readings[case.key] = Reading({pod: PodSignals(pod, found) for pod in pods})
        desired = there.make()["chat"]
        there.carry_out([desired])
        return [*live_part(desired).get("hints", ())]


async def test_what_was_given_up_is_not_known_and_the_bound_says_so(opened: Open) -> None:
    chat = await Chat.open(opened)
    [hint] = chat.hints(0.34)
    assert hint.startswith("34 % of the prompt tokens were found in the GPUs' caches. How many of the others had come ")
    assert "is not known: engines count what they find" in hint
    assert "spec.kvCache.hostMemory would save 2 of 3 replicas ($2.31/h) at most" in hint
    # 3 x 100,000 tokens, a fifth of them in use, at 12 requests a second of 3,060 tokens; then 100 GiB of 57,344 bytes.
    assert hint.endswith("for 7 s or longer, and 100 GiB of host memory for each replica would keep it for 3 min more.")


async def test_where_prompts_do_not_begin_alike_or_no_replica_can_be_saved_nothing_is_said(opened: Open) -> None:
    chat = await Chat.open(opened)
    assert chat.hints(0.05) == [], "few tokens came again"
    assert chat.hints(0.34, rate=1.0) == [], "one replica is enough"
    assert len(chat.hints(0.34)) == 1


async def test_the_status_is_not_written_anew_for_every_figure(opened: Open) -> None:
    chat = await Chat.open(opened)
    first = chat.hints(0.34)
    assert chat.hints(0.35) == first, "about the same"
    assert chat.hints(0.35, rate=6.0) != first, "another number of replicas is needed"
    assert chat.hints(0.12)[0].startswith("12 % "), "far from what was said"


async def test_what_a_cache_in_host_memory_has_found_is_measured_and_priced(opened: Open) -> None:
    chat = await Chat.open(opened, kvCache={"hostMemory": "64Gi"})
    [hint] = chat.hints(0.7, behind=0.6)
    assert hint == (
        "60 % of the prompt tokens were found in host memory lately. By the performance model, that saves 1 of 3 "
        "replicas ($1.15/h)."
    )
    [hint] = chat.hints(0.7, rate=5.0, behind=0.0)
    assert hint.startswith("0 % of the prompt tokens were found in host memory lately.")
    assert hint.endswith("the load needs as many replicas without it.")


async def test_hits_of_a_connector_of_the_users_own_are_not_called_host_memory(opened: Open) -> None:
    chat = await Chat.open(opened, engine={"extraArgs": ["--kv-offloading-size=64"]})
    assert chat.hints(0.7, behind=0.6) == []


async def test_a_declared_prefix_that_is_used_more_often_than_caches_give_up_is_not_lost(opened: Open) -> None:
    chat = await Chat.open(opened, workload={"sharedPrefix": {"tokens": 1800, "requestsPercent": 50}})
    [hint] = chat.hints(0.05)
    assert hint.startswith("spec.workload.sharedPrefix says that 30 % of the prompt tokens begin alike, and 5 % were ")
    assert "A replica gets that beginning every 0.5 s on average, and the GPUs' caches keep a prompt for 7 s" in hint
    assert hint.endswith("spec.kvCache.hostMemory would not find it.")
    assert chat.hints(0.29, rate=1.0) == [], "it is found"
    assert chat.hints(0.0) == [], "an engine that counts none may not count them"


async def test_a_declared_prefix_that_is_longer_than_prompts_is_said_to_be(opened: Open) -> None:
    chat = await Chat.open(opened, workload={"sharedPrefix": {"tokens": 7000, "requestsPercent": 100}})
    [hint] = chat.hints(0.05)
    assert hint == (
        "Prompts have 3,000 tokens on average, and spec.workload.sharedPrefix says that 7,000 tokens are the same in "
        "100 % of the requests, so not so many of them begin alike: correct tokens or requestsPercent there."
    )


async def test_an_engine_that_keeps_nothing_in_host_memory_is_not_advised_to(opened: Open) -> None:
    chat = await Chat.open(opened, engine={"version": "0.11.0"})
    assert chat.hints(0.34) == []
    neighbour = await Chat.open(opened, engine={"version": "0.11.1"})
    assert len(neighbour.hints(0.34)) == 1
