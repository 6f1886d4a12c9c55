"""All policies by the names of the tables."""

from __future__ import annotations

from benchmarks.rebalance.policies.ours import ours, ours_today
from benchmarks.rebalance.values import Maker
from plimsoll.simulation.peers import keda
from plimsoll.simulation.peers.better_law import better_law
from plimsoll.simulation.peers.dynamo_easy import dynamo_latency, dynamo_throughput
from plimsoll.simulation.peers.dynamo_sla import dynamo_sla
from plimsoll.simulation.peers.epp_keda import epp_keda
from plimsoll.simulation.peers.kpa import apa, kpa
from plimsoll.simulation.peers.static import static_peak, static_start
from plimsoll.simulation.peers.wva import BENCHMARK
from plimsoll.simulation.peers.wva_throughput import wva_throughput
from plimsoll.simulation.peers.wva_v1 import wva_v1
from plimsoll.simulation.peers.wva_v2 import wva_v2

POLICIES: dict[str, Maker] = {
    "ours": ours,
    "ours-today": ours_today,
    "static-start": static_start,
    "static-peak": static_peak,
    "wva-v1": wva_v1(),
    "wva-v1-benchmark": wva_v1(BENCHMARK),
    "wva-v2": wva_v2(),
    "wva-v2-benchmark": wva_v2(BENCHMARK),
    "wva-throughput": wva_throughput,
    "keda-kv-0.8": keda.keda(keda.kv_use, keda.KV_TARGET),
    "keda-waiting-5": keda.keda(keda.waiting, keda.WAITING_TARGET),
    "keda-running-24": keda.keda(keda.running, keda.RUNNING_TARGET),
    "keda-kv-0.8-slow": keda.keda(keda.kv_use, keda.KV_TARGET, keda.DEFAULT),
    "keda-waiting-5-slow": keda.keda(keda.waiting, keda.WAITING_TARGET, keda.DEFAULT),
    "keda-running-24-slow": keda.keda(keda.running, keda.RUNNING_TARGET, keda.DEFAULT),
    "epp-keda": epp_keda,
    "dynamo-throughput": dynamo_throughput,
    "dynamo-latency": dynamo_latency,
    "dynamo-sla": dynamo_sla,
    "kpa": kpa,
    "apa": apa,
    "better-law": better_law,
}
"""The makers. A suffix names another behavior of the HPA that carries the same rule out: see the policy's module."""
