"""Does SGLang's own parser take what the operator renders for every catalogued model, and mean the same by it?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from plimsoll.adapters.catalog import catalogued_models, load_model_facts
from plimsoll.api.conversion.convert import to_request, to_workload_options
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.domain.decisions.outcomes import Option, Placed
from plimsoll.domain.errors import PlimsollError
from plimsoll.engines.flags import owned_flag
from plimsoll.engines.sglang.engine import SGLANG
from plimsoll.placement.memo import Memo
from plimsoll.placement.places.place import place
from testbed.sglang.environment import VERSION
from testbed.sglang.parser import Parsed, parse
from tests.support.planning import fleet, node

pytestmark = pytest.mark.engine

OPTIONS: Final = Path(__file__).parents[1] / "engines" / "data" / "sglang_options.json"

COMMON: Final = ("h100-sxm-80gb", (1, 2, 4, 8))
OTHERS: Final = (("rtx-4090-24gb", (1, 2)), ("b200-sxm-180gb", (1, 8)), ("mi300x-192gb", (1, 8)))
"""GPU types with the sizes of their nodes. Every load is asked for on the first one, and one load on the others."""

SPECS: Final[tuple[dict[str, Any], ...]] = (
    {"contextLength": 4096, "concurrency": 4},
    {"contextLength": 512, "concurrency": 300},
    {"contextLength": 4096, "concurrency": 4, "kvCache": {"precision": "fp8"}, "engine": {"enforceEager": True}},
    {"contextLength": 4096, "concurrency": 4, "precision": "fp8"},
    {"contextLength": 4096, "concurrency": 4, "engine": {"speculation": {"method": "Mtp", "tokens": 2}}},
)

HEAD: Final = {
    "apiVersion": "plimsoll.dev/v1alpha1",
    "kind": "InferenceDeployment",
    "metadata": {"name": "asked", "namespace": "default", "generation": 1},
}

WRONG: Final = {
    "an option that does not exist": (("--model-path", "m", "--nonsense", "1"), "unrecognized arguments: --nonsense 1"),
    "a word for a number": (("--model-path", "m", "--tp-size", "two"), "invalid int value: 'two'"),
    "a cache that does not exist": (("--model-path", "m", "--kv-cache-dtype", "fp7"), "invalid choice: 'fp7'"),
    "a line for a hyphen": (("--model-path", "m", "--mem_fraction_static", "0.5"), "unrecognized arguments"),
}


@dataclass(frozen=True)
class Rendered:
    model: str
    choice: Option
    arguments: tuple[str, ...]


def rendered(name: str) -> Iterator[Rendered]:
    """The commands of a model on each card with each load; none where no law covers it, or it has no place."""
    facts, memo = load_model_facts(name), Memo()
    assert facts is not None, name
    for spec, (kind, sizes) in (*product(SPECS, (COMMON,)), *product(SPECS[:1], OTHERS)):
        engine = {"name": SGLANG.name, "version": VERSION, "image": "registry.example/sglang:1"}
        body = {"model": {"name": name}, **spec, "engine": engine | spec.get("engine", {})}
        resource = InferenceDeployment.model_validate({**HEAD, "spec": body})
        try:
            request = to_request(resource, facts)
            tried = [place(request, fleet(node("only", kind, count)), memo=memo) for count in sizes]
        except PlimsollError:
            continue
        found = next((each for each in tried if isinstance(each, Placed)), None)
        if found is not None:
            launch = SGLANG.launch(to_workload_options(resource), found.choice)
            yield Rendered(name, found.choice, launch.arguments)


@pytest.fixture(scope="module")
def commands() -> list[Rendered]:
    return [*{each.arguments: each for name in catalogued_models() for each in rendered(name)}.values()]


@pytest.fixture(scope="module")
def asked(commands: list[Rendered]) -> tuple[dict[str, str], list[Parsed]]:
    return parse([*(each.arguments for each in commands), *(arguments for arguments, _ in WRONG.values())])


def test_the_parser_takes_every_rendered_command_and_means_the_same(
    commands: list[Rendered], asked: tuple[dict[str, str], list[Parsed]]
) -> None:
    assert len({each.model for each in commands}) > 150
    for each, answer in zip(commands, asked[1], strict=False):
        settings, read = each.choice.settings, answer.read
        assert not answer.refused, (each, answer.refused)
        assert settings.static is not None
        meant = {
            "model_path": each.model,
            "served_model_name": "asked",
            "context_length": settings.max_model_len,
            "max_running_requests": settings.max_num_seqs * each.choice.split.data_parallel,
            "chunked_prefill_size": settings.max_num_batched_tokens,
            "tp_size": each.choice.split.tensor_parallel,
            "mem_fraction_static": settings.static.thousandths / 1000,
            "max_mamba_cache_size": settings.static.state_slots,
            "dtype": settings.dtype,
            "kv_cache_dtype": settings.kv_cache_dtype,
            "quantization": settings.quantization,
            "enable_metrics": True,
            "host": "0.0.0.0",  # noqa: S104 - the pod's own network
            "port": 8000,
        }
        assert {name: read.get(name) for name in meant} == meant, each
        windows = settings.static.window_thousandths
        assert windows is None or read.get("swa_full_tokens_ratio") == windows / 1000


def test_it_refuses_what_it_does_not_know(commands: list[Rendered], asked: tuple[dict[str, str], list[Parsed]]) -> None:
    for answer, (name, (_, words)) in zip(asked[1][len(commands) :], WRONG.items(), strict=True):
        assert words in answer.refused, name


def test_the_options_that_other_tests_read_are_its_own(asked: tuple[dict[str, str], list[Parsed]]) -> None:
    """Two names of one option are owned together: nobody gets around a flag by its other name."""
    assert sorted(json.loads(OPTIONS.read_text())["options"]) == sorted(each for each in asked[0] if each[:2] == "--")
    owned: dict[str, set[bool]] = {}
    for word, name in asked[0].items():
        owned.setdefault(name, set()).add(owned_flag(word, SGLANG.owned_flags) is not None)
    assert [name for name, found in owned.items() if len(found) > 1] == []
