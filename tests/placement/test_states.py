"""Models with recurrent states need a block of the cache for each sequence: the engine refuses to start without."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll.domain.decisions.outcomes import Fit, MemoryEstimate, Option
from plimsoll.domain.public_words import Reason, RemedyKind
from plimsoll.domain.requests.serving import Request
from plimsoll.placement.explain import rejection_sentence, remedy_sentence
from plimsoll.placement.options.candidates import Candidate
from plimsoll.placement.options.feasibility import judge
from plimsoll.placement.plan import plan
from tests.support.planning import ENGINE, fleet, node, request, tenant

GDN = "Qwen/Qwen3.5-27B"
H100 = fleet(node("h100", "h100-sxm-80gb", 1))


def running(sequences: int | None, name: str = "gdn") -> Request:
    """16 requests, and room for a fixed number of sequences."""
    return request(GDN, name=name, context=8192, concurrency=16, engine=replace(ENGINE, max_sequences=sequences))


@given(st.integers(1, 4096), st.integers(0, 4096), st.integers(0, 512))
def test_the_verdict_follows_the_edges_of_the_band(sequences: int, least: int, more: int) -> None:
    figures = MemoryEstimate((), 0, 0, 10, 5, 1, 0, 0, sequences=sequences, max_sequences=least)
    found = replace(figures, max_sequences_high=least + more).fit
    assert found is (Fit.SURE if sequences <= least else Fit.PROBABLE if sequences <= least + more else Fit.NO)
    assert replace(figures, max_sequences=None).fit is Fit.SURE


def test_too_many_sequences_are_refused_with_the_number_that_starts() -> None:
    """Qwen3.5-27B with 1,024 sequences was "sure" on an H100; public reports of such starts name 614 to 969 blocks."""
    honest = running(None, name="honest")
    both = fleet(node("a", "h100-sxm-80gb", 1), node("b", "h100-sxm-80gb", 1))
    neighbour, refused = plan([tenant(replace(honest, created="1")), tenant(replace(running(1024), created="2"))], both)
    assert neighbour.choice is not None
    assert neighbour.missing == 0
    assert refused.missing == 1
    (why,) = (each for each in refused.rejections if each.reason is Reason.TOO_FEW_STATES)
    states = int(why.number("states"))
    assert rejection_sentence(why).endswith(
        f"holds the recurrent states of {states} sequences, 1024 are to run at the same time: "
        "the engine refuses to start"
    )
    (remedy,) = (each for each in refused.remedies if each.kind is RemedyKind.REDUCE_SEQUENCES)
    most = int(dict(remedy.numbers)["to"])
    assert remedy_sentence(remedy) == f"lower spec.engine.maxSequences from 1024 to {most}"
    for number, starts in ((most, True), (most + 1, False)):
        (decided,) = plan([tenant(running(number))], H100)
        sure = decided.choice is not None and decided.choice.estimate.fit is Fit.SURE
        assert sure is starts


def test_between_the_edges_it_is_probable_and_the_warning_says_so() -> None:
    (gpu,) = (each.gpu for each in H100.nodes)
    (decided,) = plan([tenant(running(None))], H100)
    assert decided.choice is not None
    figures = decided.choice.estimate
    assert figures.max_sequences is not None
    assert figures.max_sequences_high is not None
    between = (figures.max_sequences + figures.max_sequences_high) // 2
    judged = judge(running(between), Candidate(gpu, decided.choice.target), H100)
    assert isinstance(judged, Option)
    assert judged.estimate.fit is Fit.PROBABLE
    (placed,) = plan([tenant(running(between))], H100)
    assert any("the engine may refuse to start" in warning for warning in placed.warnings)


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-8B"])
def test_other_models_have_no_such_limit(name: str) -> None:
    asked = request(name, context=2048, concurrency=8, engine=replace(ENGINE, max_sequences=1024))
    (decided,) = plan([tenant(asked)], H100)
    assert decided.choice is not None
    assert decided.choice.estimate.fit_of_states is Fit.SURE
