"""The pages of pressure and accuracy as HTML: what stands there, what stays text, and what is unknown."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from plimsoll import console
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.console.pages.live import deployments, fleet, pressure
from plimsoll.console.pages.plain import accuracy
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.live import LiveSource
from plimsoll.console.sources.prometheus_live import PrometheusLive
from plimsoll.console.views.figures import Figures
from plimsoll.console.views.fleet import FleetTotals, GpuTotal
from plimsoll.console.views.load.live_use import MapSpan, PastUse, PodPast
from plimsoll.console.views.rows import DeploymentRow, LiveRow, PoolRow
from plimsoll.console.views.world import ClusterView, GapKind, KindGap, PodRow
from plimsoll.console.visit import ConsolePage, Tools, Visit
from plimsoll.console.web import page_text
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import SourceUnavailable
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.units import GIB
from plimsoll.rebalance.signals.metrics import EngineSample, PodSignals
from tests.support.planning import gpu
from tests.support.work import counted_calls

NOW = 1_700_000_000.0
HOSTILE = "<script>alert(1)</script>"


@dataclass
class Played:
    """A Prometheus whose pods have been at 90 % for a while, with 3 requests waiting."""

    is_dead: bool = False

    def last(self, pods: Collection[ObjectKey], *, now: float, window_seconds: int) -> dict[ObjectKey, PodSignals]:
        if self.is_dead or window_seconds < 60:
            raise SourceUnavailable("Prometheus cannot be reached (ConnectionError)")
        sample = EngineSample(now - 5, kv_usage=0.9, running=8, waiting=3, kv_capacity_tokens=1000)
        return {pod: PodSignals(pod.name, (sample,)) for pod in pods}

    def over_time(self, pods: Collection[ObjectKey], *, now: float, span: MapSpan) -> PastUse:
        if self.is_dead:
            raise SourceUnavailable("Prometheus cannot be reached (ConnectionError)")
        high = {now - span.step * back: 0.9 for back in range(10)}
        line = PodPast(high, dict.fromkeys(high, 8.0), dict.fromkeys(high, 3.0), 4.0)
        return PastUse(now, span, dict.fromkeys(pods, line))

    def totals(self, *, now: float) -> FleetTotals | None:
        if self.is_dead:
            raise SourceUnavailable("Prometheus cannot be reached (ConnectionError)")
        return FleetTotals(now - 7, (GpuTotal("l4-24gb", 3, 1), GpuTotal(HOSTILE, 1, 0)))


def deployment(name: str = "llama", **more: Any) -> DeploymentRow:
    pool = PoolRow("l4-tp1", "l4-24gb", Split(1), 1, 1, max_sequences=16)
    return DeploymentRow(ObjectKey("chat", name), "uid", "1", "qwen", is_behind=False, pools=(pool,), **more)


def world(*rows: DeploymentRow, **more: Any) -> ClusterView:
    pods = tuple(
        PodRow(ObjectKey("chat", f"{row.key.name}-0"), "n", (), "Running", deployment=row.key.name, pool="l4-tp1")
        for row in rows
    )
    return ClusterView(heard=NOW, rows={row.key: row for row in rows}, pods=pods, **more)


def visit(seen: ClusterView, live: LiveSource, path: str = "/pressure", **query: str) -> Visit:
    given: Mapping[str, tuple[str, ...]] = {key: (value,) for key, value in query.items()}
    return Visit(path, given, {}, "", seen, cast("Cluster", None), Tools(ConsoleSettings(), live=live), NOW)


def source(reader: Played | None) -> LiveSource:
    return LiveSource(cast("PrometheusLive", reader), wall=lambda: NOW, patience_seconds=10)


async def html(seen: ClusterView, live: LiveSource, **query: str) -> str:
    here = visit(seen, live, **query)
    found = await pressure(here)
    assert isinstance(found, ConsolePage)
    live.close()
    return page_text(found, here, "/pressure")


def words(text: str) -> str:
    """The page's text without its tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


async def test_a_row_has_both_gauges_their_figures_and_the_diagnosis() -> None:
    live = LiveRow("Keep", "SustainedKvPressure", "Demand is over 80 %.", diagnosis="KvBound")
    text = await html(world(deployment(live=live)), source(Played()))
    seen = words(text)
    for part in (
        "90 %",
        "900 of 1,000 tokens",
        "50 %",
        "8 of 16 requests, waiting 3",
        "over 80 % for 10 min",
        "5 s old",
    ):
        assert part in seen
    for part in ("KV cache full", "SustainedKvPressure", "Demand is over 80 %.", "1 of 1 pods report"):
        assert part in seen
    assert 'href="/deployments/chat/llama"' in text
    assert "over 90 % for 10 min, no samples for 50 min" in text
    assert 'class="load-queue"' in text


async def test_without_a_prometheus_the_page_says_so_and_shows_no_zero() -> None:
    text = await html(world(deployment()), source(None))
    assert "No Prometheus is configured" in text
    row = words(text[text.index("<tbody>") : text.index("</table>")])
    assert "unknown" in row
    assert "0 %" not in row.replace("80 %", "")
    assert "No Prometheus is configured" not in await html(world(deployment()), source(Played()))


async def test_a_dead_prometheus_is_named_with_its_time() -> None:
    text = await html(world(deployment()), source(Played(is_dead=True)))
    assert "No Prometheus since 2023-11-14 22:13:20 UTC" in text
    assert "cannot be reached (ConnectionError)" in text


async def test_missing_rights_on_pods_are_named() -> None:
    gap = KindGap("pods", GapKind.FORBIDDEN, NOW)
    assert "You may not list pods in all namespaces" in await html(world(deployment(), gaps=(gap,)), source(Played()))
    assert "You may not list pods" not in await html(world(deployment()), source(Played()))


async def test_hostile_words_stay_text() -> None:
    live = LiveRow("Keep", HOSTILE, HOSTILE, diagnosis=HOSTILE)
    text = await html(world(replace(deployment(live=live), model=HOSTILE)), source(Played()), q="", span=HOSTILE)
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text
    searched = await html(world(deployment()), source(Played()), q=HOSTILE)
    assert HOSTILE not in searched
    assert "No deployment matches" in searched


async def test_no_style_and_no_script_stand_in_the_page() -> None:
    text = await html(world(deployment()), source(Played()))
    assert " style=" not in text
    assert "<script>" not in text


async def test_a_search_and_a_time_are_parts_of_the_address() -> None:
    text = await html(world(deployment(), deployment("other")), source(Played()), q="oth", span="24h")
    assert 'href="/deployments/chat/other"' in text
    assert 'href="/deployments/chat/llama"' not in text
    assert "/pressure?q=oth&amp;span=15m" in text
    assert "The last 24 h" in text


async def test_an_empty_cluster_shows_the_first_command() -> None:
    assert "kubectl apply -f examples/01-minimal/deployment.yaml" in await html(ClusterView(heard=NOW), source(None))
    assert "kubectl apply" not in await html(world(deployment()), source(None))


async def test_a_page_of_5000_deployments_has_100_rows() -> None:
    many = world(*(deployment(f"model-{number}") for number in range(5000)))
    live = source(Played())
    here = visit(many, live)
    await live.last([pod.key for pod in many.pods])
    with counted_calls() as calls:
        found = await pressure(here)
    assert isinstance(found, ConsolePage)
    assert len(found.values["lines"]) == 100
    assert calls.amount < 2_000_000
    text = page_text(found, here, "/pressure")
    live.close()
    assert text.count('scope="rowgroup"') == 100
    assert "page 1 of 50, 5,000 in all" in text


async def accuracy_html(seen: ClusterView) -> str:
    here = visit(seen, source(None), "/accuracy")
    return page_text(await accuracy(here), here, "/accuracy")


async def test_accuracy_answers_first_and_links_to_the_deployments() -> None:
    pool = PoolRow("p", "l4-24gb", Split(1), 1, 1, kv_tokens_predicted=1020, kv_tokens_reported=1000)
    text = await accuracy_html(world(replace(deployment(), pools=(pool,))))
    assert "Yes: nothing proved too small" in text
    assert "+2.0 %" in text
    assert 'href="/deployments/chat/llama"' in text
    assert text.count('class="dot"') == 1
    assert "Nobody can say yet" in await accuracy_html(world(deployment()))


@pytest.mark.parametrize("name", ["model", "gpu"])
async def test_accuracy_escapes_what_others_wrote(name: str) -> None:
    gpu_type = HOSTILE if name == "gpu" else "l4-24gb"
    pool = PoolRow("p", gpu_type, Split(1), 1, 1, kv_tokens_predicted=1020, kv_tokens_reported=1000)
    model = HOSTILE if name == "model" else "qwen"
    text = await accuracy_html(world(replace(deployment(), pools=(pool,), model=model)))
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text


async def listed(seen: ClusterView, live: LiveSource) -> str:
    """The list of deployments as HTML."""
    here = visit(seen, live, "/deployments")
    found = await deployments(here)
    assert isinstance(found, ConsolePage)
    live.close()
    return page_text(found, here, "/deployments")


async def test_the_list_has_both_gauges_and_marks_what_is_too_much() -> None:
    text = await listed(world(deployment()), source(Played()))
    assert re.search(r'<b class="bad"><span aria-hidden="true">▲</span> 90 %</b>', text)
    assert '<td class="num" data-label="batch now">50 %</td>' in text


async def test_without_a_prometheus_the_list_says_unknown_and_no_zero() -> None:
    text = await listed(world(deployment()), source(None))
    assert text.count('<span class="muted">unknown</span>') == 2
    assert "0 %</" not in text


@pytest.mark.parametrize(("reader", "is_live"), [(Played(), True), (Played(is_dead=True), False)])
async def test_the_map_marks_the_use_of_the_cache_only_while_it_is_known(reader: Played, is_live: bool) -> None:  # noqa: FBT001 - parametrized
    figures = Figures(4 * GIB, 2 * GIB, GIB, GIB, 0, 0, 18 * GIB, 20 * GIB, 100, 1000)
    row = deployment(figures=figures, gpu_type="l4-24gb", split=Split(1))
    node = GpuNode("n", gpu("l4-24gb"), "nvidia.com/gpu", ("a", "b"), 1, 1)
    seen = world(row, fleet=Fleet((node,)))
    on_node = replace(seen.pods[0], gpus=(("nvidia.com/gpu", 1),))
    live = source(reader)
    here = visit(replace(seen, pods=(on_node,)), live, "/fleet")
    found = await fleet(here)
    assert isinstance(found, ConsolePage)
    live.close()
    text = page_text(found, here, "/fleet")
    assert ('<path class="live"' in text) is is_live
    assert ("▲</span> 90 %" in text) is is_live
    assert '<path class="weights"' in text


def no_nodes(reason: GapKind = GapKind.FORBIDDEN) -> ClusterView:
    return ClusterView(heard=NOW, gaps=(KindGap("nodes", reason, NOW),))


async def fleet_page(seen: ClusterView, live: LiveSource, **how: Any) -> str:
    here = replace(visit(seen, live, "/fleet"), **how)
    found = await fleet(here)
    live.close()
    return page_text(found, here, "/fleet")


async def test_without_nodes_the_fleet_has_totals_of_the_operators_metrics_with_their_age() -> None:
    text = await fleet_page(no_nodes(), source(Played()))
    seen = words(text)
    assert "You may not list nodes" in seen
    assert "as the operator's metrics have them, 7 s old" in seen.replace("&#39;", "'")
    assert "l4-24gb 3 of 4 1" in seen
    assert HOSTILE not in text


async def test_totals_are_for_whoever_may_ask_prometheus_themselves_and_only_where_nodes_are_hidden() -> None:
    signed_in = cast("Any", object())
    for seen, live, how in (
        (no_nodes(), source(Played()), {"bearer": signed_in}),
        (no_nodes(), source(Played(is_dead=True)), {}),
        (no_nodes(), source(None), {}),
        (no_nodes(GapKind.LOADING), source(Played()), {}),
    ):
        text = words(await fleet_page(seen, live, **how))
        assert "l4-24gb" not in text
        assert "metrics have them" not in text


def test_each_place_that_shows_the_kv_cache_in_use_says_that_kept_prefixes_count_as_free() -> None:
    """The figure of the engines has no blocks that are cached and that no request uses."""
    templates = Path(console.__file__).parent / "templates"
    texts = {path.name: path.read_text() for path in templates.rglob("*.html") if path.name != "simulator.html"}
    showing = {name for name, text in texts.items() if "kv_cache_in_use" in text or "KV cache in use now" in text}
    assert showing == {"bar.html", "deployment.html", "deployments.html", "fleet.html", "pressure.html"}
    for name in showing:
        said = re.search(r"prefixes that (a cache only keeps|are only kept) for later", texts[name], re.IGNORECASE)
        assert said or "bars.legend()" in texts[name], name
