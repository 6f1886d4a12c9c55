"""A measured row as inputs of the model: facts, formats, GPU type, split and load."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from benchmarks.accuracy.cases import BadRow
from benchmarks.accuracy.loading import CONFIGS, MODELS
from benchmarks.accuracy.reading.configs import ConfigShelf
from benchmarks.latency.rows import DATA, Row
from plimsoll.adapters.catalog import load_gpu_types, load_model_facts
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.performance.decode_time import DecodeFloor, decode_floor
from plimsoll.performance.model import Load
from plimsoll.performance.step_work import StepWork, step_work

_OWN_CONFIGS: Final = DATA / "model-configs"
_MODELS: Final = DATA / "models.json"


@dataclass(frozen=True, slots=True)
class Case:
    """One row with everything that the model is asked with. ``work`` and ``floor`` are counted once for all fits."""

    row: Row
    model: ModelFacts
    precision: Precision
    kv_precision: KvPrecision
    gpu: GpuType
    split: Split
    load: Load
    work: StepWork
    floor: DecodeFloor

    @property
    def family(self) -> str:
        """The generation of its GPU."""
        return "unknown" if self.gpu.speed is None else self.gpu.speed.family


def cases_of(rows: Iterable[Row]) -> list[Case]:
    """Return all rows as cases.

    Raises:
        KeyError: a row names a model or a GPU type that is not known.
    """
    return [_case(row) for row in rows]


def _case(row: Row) -> Case:
    model, precision = _facts(row.model, row.precision)
    kv_precision, gpu = KvPrecision(row.kv_precision), _gpus()[row.gpu]
    split = Split(row.tensor_parallel, row.pipeline_parallel, row.data_parallel, row.expert_parallel)
    return Case(
        row=row,
        model=model,
        precision=precision,
        kv_precision=kv_precision,
        gpu=gpu,
        split=split,
        load=Load(row.prompt, max(2.0, row.output), max(1.0, row.running), row.rounds),
        work=step_work(model, precision, kv_precision, split),
        floor=decode_floor(model, precision, gpu, split),
    )


@cache
def _gpus() -> Mapping[str, GpuType]:
    return {gpu.name: gpu for gpu in load_gpu_types()}


@cache
def _facts(name: str, precision: str) -> tuple[ModelFacts, Precision]:
    """Return a model as it ran: its configuration, with the quantization that the row's checkpoint has."""
    base, (config, quantize) = _entries()[name, precision]["config_of"], config_of(name, precision)
    if config is None:
        facts = load_model_facts(base)
        if facts is None:
            raise KeyError(f"{name}: no configuration of {base}")
    else:
        facts = read_model_facts(name, config, revision=None, source=FactsSource.INLINE)
    return facts, quantize or facts.checkpoint.precision


def config_of(name: str, precision: str) -> tuple[dict[str, Any] | None, Precision | None]:
    """Return a model's configuration as it ran, if a file is carried, and the format that it does not state."""
    entry = _entries()[name, precision]
    config = _config(entry["config_of"])
    if config is not None and "quantization" in entry:
        config = {**config, "quantization_config": _quantizations()[entry["quantization"]]["config"]}
    return config, Precision(entry["quantize"]) if "quantize" in entry else None


def _config(name: str) -> dict[str, Any] | None:
    own = _OWN_CONFIGS / f"{name.replace('/', '__')}.json"
    if own.is_file():
        found: dict[str, Any] = json.loads(own.read_text(encoding="utf-8"))
        return found
    carried = _shelf().find(name)
    return None if carried is None else dict(carried.config)


@cache
def _shelf() -> ConfigShelf:
    bad: list[BadRow] = []
    return ConfigShelf(CONFIGS, MODELS, bad)


@cache
def _quantizations() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(MODELS.read_text(encoding="utf-8"))["quantizations"]
    return found


@cache
def _entries() -> Mapping[tuple[str, str], Mapping[str, Any]]:
    entries = json.loads(_MODELS.read_text(encoding="utf-8"))["models"]
    return {(entry["model"], entry["precision"]): entry for entry in entries}
