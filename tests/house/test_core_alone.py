"""The core runs wherever Python runs: a browser's Python has no sockets, no threads and no compiled distributions."""

from __future__ import annotations

import sys

from tests.support.alone import ROOT, with_modules
from tests.support.model_configs import CONFIGS

OUTSIDE_THE_CORE = {"asyncio", "multiprocessing", "selectors", "socket", "ssl", "subprocess"}
"""Modules of the standard library that ask the machine for what a browser does not give."""

ALLOWED = frozenset(sys.stdlib_module_names - OUTSIDE_THE_CORE)
"""No distribution at all."""

PARTS = ("domain", "facts", "memory", "performance", "placement")

IMPORT_ALL = f"""
import importlib, pkgutil
found = 0
for part in {PARTS!r}:
    package = importlib.import_module(f"plimsoll.{{part}}")
    for each in pkgutil.walk_packages(package.__path__, f"{{package.__name__}}."):
        importlib.import_module(each.name)
        found += 1
print(found)
"""

ESTIMATE = f"""
import json
from plimsoll.domain.cluster.gpus import GpuType, Interconnect, Vendor
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.models.model import FactsSource
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.engines.engine_choice import EngineChoice
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.domain.units import GIB
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.placement.options.sizing import size_on

with open({str(CONFIGS / "Qwen__Qwen3-8B.json")!r}) as file:
    model = read_model_facts("Qwen/Qwen3-8B", json.load(file), revision=None, source=FactsSource.INLINE)
request = Request(
    key=ObjectKey("default", "estimate"),
    model=model,
    precision=model.checkpoint.precision,
    kv_precision=KvPrecision.BF16,
    shape=ServingShape(context_tokens=8192, concurrency=16),
    engine=EngineChoice(EngineVersion(0, 32)),
)
gpu = GpuType(
    name="some-80gb", vendor=Vendor.NVIDIA, product_labels=(), usable_bytes=79 * GIB, total_bytes=80 * GIB,
    compute_capability=(9, 0), gfx=None, interconnect=Interconnect.NVLINK, scale_up_gpus=8,
    memory_bandwidth_gb_per_second=3350,
)
print(size_on(request, gpu, Split(1)).figures.weights_bytes)
"""


def test_every_module_of_the_core_is_imported_without_any_distribution() -> None:
    ran = with_modules(IMPORT_ALL, ALLOWED)
    assert ran.status == 0, ran.err
    modules = [each for part in PARTS for each in (ROOT / "operator" / "plimsoll" / part).rglob("*.py")]
    assert int(ran.out) == len(modules) - len(PARTS)  # each part's own __init__ is imported first


def test_the_core_makes_an_estimate_without_any_distribution() -> None:
    ran = with_modules(ESTIMATE, ALLOWED)
    assert ran.status == 0, ran.err
    assert 15 * 2**30 < int(ran.out) < 16 * 2**30  # 8.19e9 parameters in 16 bits


def test_what_is_installed_here_would_have_been_refused() -> None:
    for module in ("pydantic", "yaml", "socket", "kubernetes"):
        ran = with_modules(f"import {module}", ALLOWED)
        assert ran.status == 1
        assert f"No module named '{module}'" in ran.err
    assert with_modules("import decimal, plimsoll", ALLOWED).status == 0
