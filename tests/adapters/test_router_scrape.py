"""The queue of our own routers, from the pages of their pickers: an empty queue is not an unknown one."""

from __future__ import annotations

import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from plimsoll.adapters.prometheus.router_scrape import RouterPods, RouterScrape, queue_on
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.rebalance.signals.metrics import SignalState
from testbed.gateway_metrics import PlayedGateway
from testbed.waiting import wait_until

HANG_SECONDS = 120.0

CHAT, OTHER = ObjectKey("a", "chat"), ObjectKey("b", "chat")
OWN = 'inference_pool_ready_pods{name="chat"} 0\ninference_extension_info{build_ref="",commit=""} 1\n'
NEW, OLD = "llm_d_epp_flow_control_queue_size", "inference_extension_flow_control_queue_size"


def _line(name: str, value: str, **labels: str) -> str:
    inner = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inner}}} {value}\n"


@pytest.mark.parametrize(
    ("page", "waiting"),
    [
        (OWN, 0.0),
        (OWN + _line(OLD, "0", model_name="m"), 0.0),
        (OWN + _line(OLD, "2", model_name="m", priority="0") + _line(OLD, "1", model_name="n"), 3.0),
        (OWN + _line(OLD, "2", model_name="m") + _line(NEW, "2", model_name="m"), 2.0),
        (OWN + f"# TYPE {OLD} gauge\n{OLD}_bucket 7\n", 0.0),
        (OWN + _line(OLD, "1", model_name='a"} 9'), 1.0),
    ],
    ids=[
        "no series yet",
        "empty",
        "several flows",
        "two names",
        "another series",
        "a model name that looks like a value",
    ],
)
def test_the_queue_is_the_sum_of_its_flows_under_one_name(page: str, waiting: float) -> None:
    assert queue_on(page) == waiting


@pytest.mark.parametrize("page", ["", "vllm:num_requests_waiting 3\n", "<html></html>"])
def test_a_page_of_something_else_is_no_empty_queue(page: str) -> None:
    with pytest.raises(SourceUnavailable, match="not those of an endpoint picker"):
        queue_on(page)


_FLOWS = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=20), st.integers(0, 10_000)), max_size=8)


@given(_FLOWS, st.randoms())
def test_whatever_models_clients_ask_for_the_queue_is_the_sum_of_their_requests(
    flows: list[tuple[str, int]], random: Random
) -> None:
    registry = CollectorRegistry()
    gauge = Gauge(OLD, "held", ["model_name", "priority"], registry=registry)
    for index, (model, count) in enumerate(flows):
        gauge.labels(model, str(index)).set(count)
    lines = (OWN + generate_latest(registry).decode()).split("\n")
    random.shuffle(lines)
    assert queue_on("\n".join(lines)) == sum(count for _, count in flows)


def _scrape(gateway: PlayedGateway) -> RouterScrape:
    return RouterScrape(port=int(gateway.target.rpartition(":")[2]))


def test_a_request_that_waits_is_news_and_a_picker_that_does_not_answer_costs_its_neighbour_nothing() -> None:
    with PlayedGateway() as gateway:
        scrape = _scrape(gateway)
        gateway.hold("a", "chat", 0)
        routers = {
            CHAT: RouterPods({"r": "127.0.0.1", "late": ""}, is_asleep=True),
            OTHER: RouterPods({"x": "127.9.9.9"}),
        }

        def is_known() -> bool:
            scrape.begin(routers)
            return scrape.queue(CHAT, time.time()).is_known

        wait_until(is_known, HANG_SECONDS, "the picker's first answer")
        assert scrape.queue(CHAT, time.time()).waiting == 0
        gateway.hold("a", "chat", 2)
        wait_until(lambda: scrape.begin(routers), HANG_SECONDS, "news")
        assert scrape.queue(CHAT, time.time()).waiting == 2
        other = scrape.queue(OTHER, time.time())
        assert other.state is SignalState.MISSING
        assert "x: " in other.error
        scrape.begin({})
        assert scrape.queue(CHAT, time.time()).state is SignalState.MISSING, "a router that is gone holds nothing"
        scrape.close()


@pytest.mark.parametrize("address", ["169.254.169.254", "no address", "224.0.0.1"])
def test_an_address_that_no_pod_can_have_is_not_asked(address: str) -> None:
    scrape = RouterScrape()
    routers = {CHAT: RouterPods({"r": address}, is_asleep=True)}

    def is_said() -> bool:
        scrape.begin(routers)
        return "no IP address that a pod can have" in scrape.queue(CHAT, time.time()).error

    wait_until(is_said, HANG_SECONDS, "the reason")
    scrape.close()
