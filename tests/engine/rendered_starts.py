"""The starts that the operator renders for catalogued models, one for each that the engine's checks can tell apart.

A check reads the model's configuration, the arguments, and the kind of card: its compute capability, or its target if
it is AMD's. The memory and the name of a card decide the engine's defaults for its step and its sequences alone
(``get_batch_defaults`` of ``engine/arg_utils.py``, 0.32), and a rendered command names both. So GPU types differ only
in what is rendered for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Final

from plimsoll.adapters.catalog import catalogued_models, load_gpu_types, load_model_facts
from plimsoll.api.conversion.convert import to_request, to_workload_options
from plimsoll.api.v1alpha1 import InferenceDeployment
from plimsoll.domain.cluster.fleet import Fleet
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Placed
from plimsoll.domain.errors import PlimsollError
from plimsoll.engines.registry import engine_of
from plimsoll.placement.memo import Memo
from plimsoll.placement.places.place import place
from testbed.engine.oracle.config_folder import engine_config
from testbed.engine.oracle.questions import Card
from tests.support.model_configs import CONFIGS, config_of
from tests.support.planning import fleet, node

USUAL: Final = {"contextLength": 512, "concurrency": 16}
SMALL: Final = {"contextLength": 512, "concurrency": 1}
"""A load whose step is no larger than one request."""

EVERY_MODEL_ON: Final = "h100-sxm-80gb"
"""On the other types one model stands for all of its class, quantization and rotary scaling."""

TOO_OLD: Final = (7, 0)
"""vLLM's images are not built for this compute capability, so nothing has a place there."""

OF_NO_CONSEQUENCE: Final = {
    "--served-model-name",
    "--max-num-seqs",
    "--gpu-memory-utilization",
    "--port",
    "--shutdown-timeout",
}
"""Flags with a value that no check depends on: a change of the memory law needs no new recording."""

NOT_THE_PUBLISHED_CLASS: Final = {"stepfun-ai/Step-3.7-Flash", "stepfun-ai/Step-3.7-Flash-FP8"}
"""Their catalogued configuration is another project's, with a class name of its own. The language model is the same."""

READ_BY_THEIR_OWN_CODE: Final = {"microsoft/Phi-3-small", "xverse/XVERSE-7B"}
"""The engine reads their configuration with code of their repositories alone, which nothing here downloads."""

_NODES: Final = (1, 2, 4, 8)
"""GPUs of a node. The smallest node that has room is asked for."""

Arguments = tuple[str, ...]
Kind = tuple[int, int] | str
"""A compute capability, or a target of AMD's."""


@cache
def published() -> dict[str, dict[str, Any]]:
    """Whole configurations of catalogued models, by name. The catalogue itself keeps what the memory depends on."""
    names = {path.stem.replace("__", "/", 1): path.stem for path in CONFIGS.glob("*.json")}
    configs = {name: config_of(names[name]) for name in catalogued_models() if name in names}
    return {
        name: engine_config(config, quantized=True)
        for name, config in configs.items()
        if "model_type" in config and name not in NOT_THE_PUBLISHED_CLASS | READ_BY_THEIR_OWN_CODE
    }


def representatives() -> list[str]:
    """The first model of each class with each quantization and each way of rotary scaling."""
    first: dict[str, str] = {}
    for name, config in published().items():
        inner = config.get("text_config") or config
        traits = [
            config.get("architectures"),
            _method(config),
            inner.get("rope_scaling") or inner.get("rope_parameters"),
        ]
        first.setdefault(json.dumps(traits, sort_keys=True), name)
    return [*first.values()]


def _method(config: Mapping[str, Any]) -> str | None:
    quantization = config.get("quantization_config") or {}
    return quantization.get("quant_method")


def kind_of(kind: GpuType) -> Kind:
    """What the engine's checks read of a GPU type."""
    if kind.gfx is not None:
        return kind.gfx
    assert kind.compute_capability is not None, kind.name
    return kind.compute_capability


def card_of(kind: GpuType) -> Card:
    """The card that stands for all of a type's kind: the first of the catalogue, with the name of its driver."""
    first = next(each for each in load_gpu_types() if kind_of(each) == kind_of(kind))
    name, capability = first.product_labels[0], first.compute_capability or (0, 0)
    return Card(name, capability, first.usable_bytes, first.gfx)


@cache
def kinds() -> dict[Kind, Card]:
    """A card for each kind of the catalogue."""
    return {kind_of(each): card_of(each) for each in load_gpu_types()}


def rendered(name: str, load: Mapping[str, int], types: Sequence[GpuType]) -> Iterator[tuple[Kind, Arguments]]:
    """What follows ``vllm serve MODEL`` on these types, without what no check depends on; nothing without a place."""
    head = {"name": "asked", "namespace": "default", "generation": 1}
    body = {"apiVersion": "plimsoll.dev/v1alpha1", "kind": "InferenceDeployment", "metadata": head}
    resource = InferenceDeployment.model_validate({**body, "spec": {"model": {"name": name}, **load}})
    facts = load_model_facts(name)
    assert facts is not None, name
    try:
        request = to_request(resource, facts)
    except PlimsollError:
        return
    options, memo = to_workload_options(resource), Memo()

    @cache
    def arguments(kind: GpuType) -> Arguments | None:
        tried = (place(request, nodes, memo=memo) for nodes in _fleets(kind.name))
        found = next((each for each in tried if isinstance(each, Placed)), None)
        if found is None:
            return None
        return tuple(_of_consequence(engine_of(options.engine).launch(options, found.choice).arguments[1:]))

    for ladder in _ladders(types):
        yield from ((kind_of(ladder[0]), each) for each in _distinct(ladder, arguments) if each is not None)


def _ladders(types: Sequence[GpuType]) -> Iterator[list[GpuType]]:
    """Types that differ in their memory alone, the smallest first."""

    def traits(kind: GpuType) -> tuple[str, bool, bool]:
        # An A100 has a smaller step than a card of its size.
        return str(kind_of(kind)), kind.mig is not None, kind.name.startswith("a100")

    ordered = sorted(types, key=lambda kind: (*traits(kind), kind.usable_bytes, kind.name))
    yield from ([*group] for _, group in groupby(ordered, traits))


def _distinct(
    ladder: Sequence[GpuType], arguments: Callable[[GpuType], Arguments | None]
) -> dict[Arguments | None, None]:
    """What is rendered on a ladder. More memory never needs more GPUs, so between two equal steps all are equal."""
    lowest, highest = arguments(ladder[0]), arguments(ladder[-1])
    if lowest == highest or len(ladder) <= len((lowest, highest)):
        return {lowest: None, highest: None}
    middle = len(ladder) // 2
    return _distinct(ladder[: middle + 1], arguments) | _distinct(ladder[middle:], arguments)


@cache
def _fleets(name: str) -> tuple[Fleet, ...]:
    return tuple(fleet(node("only", name, count)) for count in _NODES)


def _of_consequence(arguments: Sequence[str]) -> Iterator[str]:
    words = iter(arguments)
    for word in words:
        if word in OF_NO_CONSEQUENCE:
            next(words)
        else:
            yield word
