"""What is planned for drawn fleets and deployments, in the words that an admin reads.

Nobody says that these plans are the best ones: ``make bench-placement`` measures that. They are kept so that a change
of the planner shows the plans and the sentences that it moves. ``make goldens`` takes it over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from plimsoll.adapters import highs
from plimsoll.domain.cluster.fleet import Fleet, GpuNode
from plimsoll.domain.cluster.gpus import CapacityType
from plimsoll.domain.cluster.host import HostRoom
from plimsoll.domain.cluster.node_groups import NodeGroup
from plimsoll.domain.cluster.priorities import Priority
from plimsoll.domain.cluster.spot import card_name, spot_type
from plimsoll.domain.decisions.latency import Slo
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import GpuConstraints, Request, TotalLoad
from plimsoll.domain.units import GIB
from plimsoll.placement.demands.pools import Decision, Pool, PoolState, Tenant
from plimsoll.placement.explain import place_words, rejection_sentence, remedy_sentence, suggestion_sentence
from plimsoll.placement.plan import plan
from plimsoll.placement.solvers import DEFAULT_SOLVER
from tests.support.planning import (
    A100,
    H100,
    L4,
    L40S,
    LLAMA_8B,
    LLAMA_70B,
    LLAMA_70B_FP8,
    MI300X,
    T4,
    gpu,
    node,
    pool,
    request,
    tenant,
)

KEPT_PLANS = Path(__file__).parent / "data" / "plans.jsonl"
WORLDS = 100
CROWDED_WORLDS = 40
"""With more deployments than a world has room for, of several priorities, and GPUs without a price."""

UNPRICED = frozenset({L40S, T4})
"""In crowded worlds."""

MODELS = (
    LLAMA_8B,
    LLAMA_8B,
    LLAMA_70B,
    LLAMA_70B_FP8,
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-30B-A3B",
    "google/gemma-3-27b-it",
)
KINDS = (H100, A100, L40S, L40S, L4, L4, MI300X, T4)
MOST_SENTENCES = 5
"""Of one deployment's rejections: every world has others."""


def kept_plans() -> Iterator[tuple[Path, str]]:
    """The file with a line for each world, with its text."""
    yield KEPT_PLANS, "".join(f"{json.dumps(_world(seed))}\n" for seed in range(WORLDS + CROWDED_WORLDS))


def _world(seed: int) -> dict[str, Any]:
    dice = Random(seed)  # noqa: S311 - a simulation
    nodes = [_node(dice, index) for index in range(dice.randint(1, 5))]
    if seed < WORLDS:
        where = Fleet().with_nodes(nodes)
        tenants = [_tenant(dice, index, where) for index in range(dice.randint(1, 4))]
    else:
        where = Fleet().with_nodes([_unpriced(each) for each in nodes])
        crowd = [_tenant(dice, index, where) for index in range(dice.randint(7, 12))]
        tenants = [replace(each, priority=Priority(dice.choice((0, 0, 5, 10)))) for each in crowd]
    quota = {"default": {"requests.nvidia.com/gpu": dice.randint(0, 9)}} if dice.random() < 0.25 else None
    kinds = tuple(gpu(kind) for kind in (H100, L4, MI300X))
    kind = dice.choice(KINDS)
    resource = "amd.com/gpu" if kind == MI300X else "nvidia.com/gpu"
    group = NodeGroup("more", gpu(kind), resource, dice.choice((1, 4, 8)), dice.choice((None, 8)))
    solver = highs.fleetwide() if dice.random() < 0.5 else DEFAULT_SOLVER
    groups = (group,) if dice.random() < 0.3 else ()
    decisions = plan(tenants, where, kinds, quotas=quota, solver=solver, groups=groups)
    return {"world": seed, "decisions": [_said(each) for each in decisions]}


def _node(dice: Random, index: int) -> GpuNode:
    kind, gpus = dice.choice(KINDS), dice.choice((1, 2, 4, 8))
    held = min(gpus, dice.choice((0, 0, 0, 1, 3)))
    usual = node(f"n{index}", kind, gpus, held=held, labels={"zone": dice.choice("ab")})
    host = dice.choice(
        (None, HostRoom(cpu_millis=dice.choice((8_000, 96_000)), memory_bytes=dice.choice((64, 900)) * GIB))
    )
    spot = dice.random() < 0.15
    found = usual if host is None else replace(usual, host=host, host_free=host)
    return replace(found, gpu=spot_type(found.gpu), capacity_type=CapacityType.SPOT) if spot else found


def _unpriced(each: GpuNode) -> GpuNode:
    return replace(each, gpu=replace(each.gpu, price=None)) if each.gpu.name in UNPRICED else each


def _tenant(dice: Random, index: int, where: Fleet) -> Tenant:
    wanted = _request(dice, index)
    running = [_pool(dice, number, where) for number in range(dice.choice((0, 0, 0, 1, 1, 2)))]
    return tenant(wanted, *running, accepts_move=dice.random() < 0.2, overdue=dice.random() < 0.05)


def _request(dice: Random, index: int) -> Request:
    prompt, output = dice.choice((100, 3000)), dice.choice((50, 900))
    wanted = request(
        dice.choice(MODELS),
        name=f"d{index}",
        created=f"2026-11-20T{index:02}:00:00Z",
        context=dice.choice((2048, 8192, 32768)),
        concurrency=dice.choice((1, 8, 40, 200)),
        replicas=dice.randint(1, 3),
        may_narrow_cache=dice.random() < 0.3,
        constraints=GpuConstraints(
            deny=tuple(dice.sample((H100, L4, T4), dice.choice((0, 0, 1)))),
            max_per_replica=dice.choice((None, None, 4)),
        ),
        node_selector=dice.choice(((), (), (("zone", "a"),))),
        slo=dice.choice((None, None, Slo(dice.choice((0.5, 5.0)), dice.choice((0.02, 0.05))))),
        total=dice.choice((None, None, TotalLoad(dice.choice((30, 300)), dice.randint(1, 2)))),
    )
    shape = wanted.shape
    if dice.random() < 0.3:
        shape = replace(shape, expected_prompt_tokens=prompt, expected_output_tokens=output)
    return replace(wanted, shape=shape, key=ObjectKey(dice.choice(("default", "other")), wanted.key.name))


def _pool(dice: Random, number: int, where: Fleet) -> Pool:
    """A pool where GPUs of its kind are, which may be of an earlier spec, and whose pods may have found no node."""
    kind, replicas = dice.choice([card_name(each.gpu.name) for each in where.nodes]), dice.randint(1, 3)
    bound = dice.choice((replicas, replicas, dice.randint(0, replicas)))
    ready = dice.choice((bound, dice.randint(0, bound)))
    usual = pool(
        kind,
        dice.choice((1, 1, 2)),
        replicas,
        bound=bound,
        ready=ready,
        served=ready > 0,
        stranded=dice.choice((0, replicas - bound)),
        generation=dice.choice((1, 1, 0)),
    )
    retiring = number > 0
    return replace(usual, name=f"{usual.name}-{number}", state=PoolState.RETIRING) if retiring else usual


def _said(decision: Decision) -> dict[str, Any]:
    said: dict[str, Any] = {
        "pools": [
            [place_words(each.gpu_type, each.split), each.state, each.replicas, _settings(each.choice), each.surge]
            for each in decision.pools
        ],
        "missing": decision.missing,
        "rejected": [rejection_sentence(each) for each in decision.rejections[:MOST_SENTENCES]],
        "reasons": [each.reason for each in decision.rejections[MOST_SENTENCES:]],
        "remedies": [remedy_sentence(each) for each in decision.remedies],
        "suggested": [suggestion_sentence(each) for each in decision.suggestions],
        "warnings": list(decision.warnings),
        "outgrown": "" if decision.outgrown is None else rejection_sentence(decision.outgrown),
        "departures": [str(each) for each in decision.departures],
        "rolledBack": len(decision.rolled_back),
        "sizes": [str(each) for each in decision.sizes],
        "flags": [decision.placed_now, decision.change_blocked, decision.rehomings_spent, decision.failure],
        "appraisal": "" if decision.appraisal is None else str(decision.appraisal),
    }
    return {name: value for name, value in said.items() if value}


def _settings(choice: Any) -> list[Any]:
    if choice is None:
        return []
    settings = choice.settings
    return [settings.max_num_seqs, settings.max_num_batched_tokens, settings.kv_cache_dtype, str(choice.hourly_price)]
