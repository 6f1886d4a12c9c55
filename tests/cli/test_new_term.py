"""A term that only the engine's law knows is shown by everything that shows an estimate."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from plimsoll.adapters.metrics import Metrics
from plimsoll.cli.answers.segments import segments
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Split
from plimsoll.domain.decisions.terms import Derivation, Line, Term, TermName
from plimsoll.domain.kubernetes_names import ObjectKey
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, MIB
from plimsoll.engines.registry import ENGINES
from plimsoll.engines.vllm.engine import VLLM
from plimsoll.placement.demands.pools import Decision
from plimsoll.placement.explain import estimate_sentence
from plimsoll.status.record.reading import Record
from plimsoll.status.record.report import Report
from plimsoll.status.writing import document_of, new_status
from tests.cli.test_estimate import Ran, one
from tests.render.workloads import decision
from tests.support.planning import H100, LLAMA_8B, model

SIZE = 5 * GIB + 7
TOY = TermName("toy_tables", "toy tables")
SPARE = TermName("spare_toys", "spare toys", optional=True)
KEY = ObjectKey("ml", "llama")


def toy_derivation(_: object) -> Derivation:
    lines = (Line("table", "5 x 1 GiB", 5 * GIB), Line("end", "7 B", 7))
    return Derivation("5 toys in a table", lines)


def with_toys(request: Request, gpu: GpuType, split: Split, settings: EngineSettings) -> MemoryEstimate:
    figures = VLLM.estimate(request, gpu, split, settings)
    return replace(figures, terms=(*figures.terms, Term(TOY, SIZE, toy_derivation), Term(SPARE, 0)))


@pytest.fixture
def plain() -> MemoryEstimate:
    """The estimate of the usual law."""
    return estimate_of(decision())


@pytest.fixture
def toys(plain: MemoryEstimate, monkeypatch: pytest.MonkeyPatch) -> Decision:
    """A decision under a law with one more term, after one under the usual law."""
    assert plain.bytes_of(TOY) == 0
    monkeypatch.setitem(ENGINES, VLLM.name, replace(VLLM, estimate=with_toys))
    return decision()


def estimate_of(decided: Decision) -> MemoryEstimate:
    assert decided.choice is not None
    return decided.choice.estimate


def test_the_sum_contains_it(plain: MemoryEstimate, toys: Decision) -> None:
    figures = estimate_of(toys)
    assert figures.expected_bytes == plain.expected_bytes + SIZE
    assert figures.without_cache_bytes == plain.without_cache_bytes + SIZE
    assert figures.computed_bytes == plain.computed_bytes + SIZE


def test_the_bar_the_legend_and_the_table_show_it(toys: Decision, capsys: pytest.CaptureFixture[str]) -> None:
    shown = Ran(capsys, [LLAMA_8B, "--gpu", H100]).shown
    assert "O overhead, T toy tables, m margin" in shown
    assert re.search(r"OTTTm?\.", shown)
    assert re.search(r"^ toy tables +5\.00", shown, re.MULTILINE)
    assert "spare toys" not in shown
    letters = [segment.look.letter for segment in segments(estimate_of(toys))]
    assert len(set(letters)) == len(letters)


def test_the_legend_without_it_is_the_usual_one(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Ran(capsys, [LLAMA_8B, "--gpu", H100]).shown
    usual = "W weights, L LoRA slots, K KV cache, A activations, G CUDA graphs, O overhead, m margin, . free"
    assert usual in shown


@pytest.mark.usefixtures("toys")
def test_the_working_shows_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    steps = one(capsys, LLAMA_8B, "--gpu", H100, "--why")["working"]
    rows = [(step["term"], step["how"], step["bytes"], step["total"]) for step in steps]
    start = rows.index(("table", "5 x 1 GiB", 5 * GIB, False))
    assert rows[start - 1][0] == "overhead"
    assert rows[start + 1 : start + 3] == [("end", "7 B", 7, False), ("toy tables", "5 toys in a table", SIZE, True)]
    assert rows[start + 3][:2] == ("needed", "weights + KV cache + activations + CUDA graphs + overhead + toy tables")
    shown = Ran(capsys, [LLAMA_8B, "--gpu", H100, "--why"]).shown
    assert re.search(r"toy tables +5 toys in a table +5\.000", shown)


@pytest.mark.usefixtures("toys")
def test_the_data_contain_it(capsys: pytest.CaptureFixture[str]) -> None:
    terms = one(capsys, LLAMA_8B, "--gpu", H100)["terms"]
    assert terms["toyTablesBytes"] == SIZE
    assert terms["spareToysBytes"] == 0


def test_the_metrics_contain_it(toys: Decision) -> None:
    metrics = Metrics()
    metrics.show_cases({KEY: Report(KEY.name, 1, 1, toys)})
    labels = {"namespace": "ml", "name": "llama"}
    seen = {
        part: metrics.registry.get_sample_value("plimsoll_estimated_gpu_memory_bytes", {**labels, "component": part})
        for part in ("weights", "kv", "overhead", "toy_tables")
    }
    figures = estimate_of(toys)
    assert seen == {
        "weights": figures.weights_bytes,
        "kv": figures.kv_cache_bytes,
        "overhead": figures.overhead_bytes,
        "toy_tables": SIZE,
    }


def test_the_status_counts_it_as_overhead_and_names_it_in_words(plain: MemoryEstimate, toys: Decision) -> None:
    """The CRD's schema of ``status.estimate`` is closed: another field would be dropped by the API server."""
    report = Report("llama", 3, 1, namespace="ml", decision=toys, model=model(), engine_version="0.32.0")
    document = document_of(new_status(report, Record(), "2026-01-01T00:10:00Z"))
    written = document["estimate"]
    assert written["overheadBytes"] == plain.overhead_bytes + SIZE
    fields = ("weightsBytes", "kvCacheBytes", "activationsBytes", "cudaGraphsBytes", "overheadBytes")
    assert sum(written[field] for field in fields) == written["expectedBytes"] == plain.expected_bytes + SIZE
    words = estimate_sentence(estimate_of(toys))
    assert "+ toy tables 5.00 GiB + margin" in words
    assert words in str(document["conditions"])


def test_lines_are_made_only_when_they_are_read() -> None:
    made = []

    def explain(about: int) -> Derivation:
        made.append(about)
        return Derivation("a table", (Line("half", "1 MiB", MIB), Line("half", "1 MiB", MIB)))

    term = Term(TOY, 2 * MIB, explain, 1)
    corrected = term.plus(Line("learned", "less", -MIB))
    assert (corrected.size_bytes, made) == (MIB, [])
    derivation = corrected.derive()
    assert sum(line.size_bytes or 0 for line in derivation.lines) == corrected.size_bytes
    assert (derivation.formula, derivation.lines[-1].label, made) == ("a table", "learned", [1])


def test_terms_are_equal_by_name_and_bytes_alone() -> None:
    assert Term(TOY, 7, toy_derivation) == Term(TOY, 7)
    assert hash(Term(TOY, 7, toy_derivation)) == hash(Term(TOY, 7))
    assert Term(TOY, 7) != Term(TOY, 8)
    assert Term(TOY, 7) != Term(SPARE, 7)
