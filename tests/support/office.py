"""Passes over a small cluster without a network, with a count of what they do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.planning.passes import look_up, new_passes
from benchmarks.planning.pictures import carry_out, new_store
from plimsoll.adapters.cluster.client import ObjectKind
from plimsoll.app.plan.passes import Passes, PassResult
from plimsoll.app.watch.store import Store
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.registry import ENGINES
from plimsoll.engines.vllm.engine import VLLM

OBJECTS, MACHINES = 5, 20
NOW = time.time()


@dataclass
class Office:
    """Passes over one store, with a count of what they read."""

    passes: Passes
    store: Store
    calls: Counter[str] = field(default_factory=Counter)
    version: int = 1
    now: float = NOW

    @staticmethod
    def open(cache: Path) -> Office:
        """Deployments that nobody has looked at, on nodes with nothing on them."""
        return Office(new_passes(cache), new_store(MACHINES, OBJECTS))

    def make(self) -> PassResult:
        """One pass; only its own calls are counted."""
        self.calls.clear()
        return self.passes.make(self.store.picture(), {}, self.now)

    async def settle(self) -> PassResult:
        """Until everything serves and the statuses say so."""
        self.make()
        await look_up(self.passes)
        for _ in range(3):
            self.version += 1
            carry_out(self.store, self.make().desired, self.version)
        return self.make()

    def change(self, kind: ObjectKind, index: int, change: Callable[[dict[str, Any]], object]) -> None:
        """Bring a new version of one object, as a watch does."""
        self.version += 1
        body = _copied(self.store.all(kind)[index])
        body["metadata"]["resourceVersion"] = str(self.version)
        change(body)
        self.store.observe(kind, "MODIFIED", body)

    def count(self, patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        """Count the calls of a function."""
        real = getattr(module, name)

        def counted(*arguments: Any, **more: Any) -> Any:
            self.calls[name.lstrip("_")] += 1
            return real(*arguments, **more)

        patch.setattr(module, name, counted)

    def count_estimates(self, patch: pytest.MonkeyPatch) -> None:
        """Count the estimates that vLLM's law makes."""

        def counted(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> MemoryEstimate:
            self.calls["estimate"] += 1
            return VLLM.estimate(request, gpu, split, settings)

        patch.setitem(ENGINES, VLLM.name, replace(VLLM, estimate=counted))


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(entry) for key, entry in value.items()}
    return [_copied(entry) for entry in value] if isinstance(value, list) else value
