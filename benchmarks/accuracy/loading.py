"""From files to scored cases: what is read, what is mapped to inputs, and what is left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.accuracy.cases import BadRow, Case, OracleRow
from benchmarks.accuracy.checkpoint import Checkpoint, checkpoint_of
from benchmarks.accuracy.ours import facts_of, follows
from benchmarks.accuracy.reading.configs import ConfigShelf, Found
from benchmarks.accuracy.reading.oracle import read_oracle
from benchmarks.accuracy.reading.records import read_records
from benchmarks.accuracy.reading.speculation import drafting_of
from benchmarks.accuracy.scoring import Scored
from benchmarks.accuracy.setups import SPECULATION, Setup, UnusableCase, setup_of, unquantized, weights_setup
from benchmarks.accuracy.split import is_held_out

DATA: Final = Path(__file__).resolve().parent / "data"
RUNS, LOGS = DATA / "runs.json", DATA / "startup_logs.json"
CONFIGS, ORACLE, MODELS = DATA / "model-configs", DATA / "oracle.jsonl", DATA / "models.json"


@dataclass(frozen=True, slots=True)
class Sources:
    """Which files are read."""

    runs: Path | None = RUNS
    logs: Path | None = LOGS
    configs: Path = CONFIGS
    oracle: Path | None = ORACLE


@dataclass(slots=True)
class Loaded:
    """Everything that is scored, and everything that is not, by name and reason."""

    scored: list[Scored] = field(default_factory=list)
    weights: list[tuple[OracleRow, Setup]] = field(default_factory=list)
    left_out: list[BadRow] = field(default_factory=list)
    bad: list[BadRow] = field(default_factory=list)


def load(sources: Sources) -> Loaded:
    """Read all sources. A file that does not exist is a bad row, never an end."""
    loaded = Loaded()
    shelf = ConfigShelf(sources.configs, MODELS, loaded.bad)
    for path, dataset in ((sources.runs, "runs"), (sources.logs, "logs")):
        for case in _records(path, dataset, loaded.bad):
            _add(loaded, case, shelf, is_carried=path is not None and path.resolve() in {RUNS, LOGS})
    for row in _oracle(sources.oracle, loaded.bad):
        _add_weights(loaded, row, shelf)
    return loaded


def checkpoint_for(name: str, config: Mapping[str, Any]) -> Checkpoint | None:
    """The headers of a configuration's checkpoint; None where the model's shapes cannot be read."""
    try:
        return checkpoint_of(facts_of(name, config))
    except Exception:  # noqa: BLE001 - then the peers that need a size have no answer, and our own says why
        return None


def _records(path: Path | None, dataset: str, bad: list[BadRow]) -> list[Case]:
    if path is None or not _is_there(path, bad):
        return []
    return read_records(path, dataset, bad)


def _oracle(path: Path | None, bad: list[BadRow]) -> list[OracleRow]:
    if path is None or not _is_there(path, bad):
        return []
    return read_oracle(path, bad)


def _is_there(path: Path, bad: list[BadRow]) -> bool:
    if not path.is_file():
        bad.append(BadRow(path.name, "no such file"))
    return path.is_file()


def _add(loaded: Loaded, case: Case, shelf: ConfigShelf, *, is_carried: bool) -> None:
    reason = _reason_to_leave_out(case)
    found = shelf.find(case.model) if case.model else None
    if reason is None and found is None:
        reason = f"no configuration: {case.model}"
    if reason is None and found is not None:
        try:
            checkpoint = checkpoint_for(case.model or "", found.config)
            setup = _honest(setup_of(case, found, checkpoint, _draft_of(case, shelf)))
        except UnusableCase as error:
            reason = str(error)
        else:
            loaded.scored.append(Scored(case, setup, is_held_out(case, is_carried=is_carried)))
    if reason is not None:
        loaded.left_out.append(BadRow(case.id, reason))


def _draft_of(case: Case, shelf: ConfigShelf) -> Mapping[str, Any] | None:
    """Return the configuration of the draft that a record names; None where it names none, or none is known."""
    drafting = drafting_of(case.other_flags)
    found = shelf.find(drafting.model) if drafting is not None and drafting.model is not None else None
    return None if found is None else found.config


def _honest(setup: Setup) -> Setup:
    """Return the inputs with a speculation that no law covers noted as assumed."""
    if SPECULATION in setup.assumed or follows(setup):
        return setup
    return replace(setup, assumed=(*setup.assumed, SPECULATION))


def _reason_to_leave_out(case: Case) -> str | None:
    if case.suspect:
        return f"contradicts itself: {case.suspect}"
    return "names no model" if case.model is None else None


def _add_weights(loaded: Loaded, row: OracleRow, shelf: ConfigShelf) -> None:
    found: Found | None = shelf.find(row.config)
    if found is None:
        loaded.left_out.append(BadRow(row.id, f"no configuration: {row.config}"))
        return
    if row.bytes is None:
        loaded.left_out.append(BadRow(row.id, "states parameters but no bytes"))
        return
    config = found.config if row.quantized is not False else unquantized(found.config)
    loaded.weights.append((row, weights_setup(row, found, checkpoint_for(row.config, config))))
