"""Why here, and not elsewhere: a row for every reason, in the order of the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from plimsoll.api.v1alpha1.status import InferenceDeploymentStatus
from plimsoll.console.rendering import environment
from plimsoll.console.views.deployment.candidates import CandidateRow, Candidates, candidates_of, sorted_candidates
from plimsoll.console.views.figures import Figures
from plimsoll.console.views.rows import row_of
from plimsoll.domain.decisions.outcomes import Fit, Rejection, Split
from plimsoll.domain.public_words import Reason
from plimsoll.domain.units import GIB
from plimsoll.placement.explain import rejection_sentence
from plimsoll.status.record.rejected import rejected
from plimsoll.status.writing import document_of
from tests.placement.test_explain import REJECTIONS
from tests.support.console_pages import chat
from tests.support.planning import H100, L4, fleet, node, placed, request
from tests.support.proposals import Seen, read_html
from tests.support.tables import every_case

FIGURES = next(
    each.figures for each in placed(request(), fleet(node("a", H100), node("b", L4))).rejections if each.figures
)
"""The figures of a candidate that fits."""

UNMEASURED = [each for each in REJECTIONS if each[0] is not Reason.COSTS_MORE]
"""What costs more fits, with or without figures in the status."""

FAILS = {Reason.OBSERVED_TOO_SMALL, Reason.START_FAILED, Reason.TOO_FEW_STATES}


def status_with(*rejections: Rejection) -> tuple[InferenceDeploymentStatus, dict[str, Any]]:
    body = chat()
    body["status"]["rejections"] = [document_of(each) for each in rejected(rejections)]
    return InferenceDeploymentStatus.model_validate(body["status"]), body


def candidates_with(*rejections: Rejection) -> Candidates:
    status, body = status_with(*rejections)
    return candidates_of(status, row_of(body))


def shown(found: Candidates) -> Seen:
    macros = environment().get_template("macros/candidates.html").module
    return read_html(str(macros.all(found, 230)))  # type: ignore[attr-defined]


def rejection(reason: Reason, numbers: dict[str, int | str], *, measured: bool) -> Rejection:
    return Rejection(H100, Split(2), reason, tuple(numbers.items()), FIGURES if measured else None)


@every_case(("reason", "numbers", "sentence"), REJECTIONS, ids=[each[0].value for each in REJECTIONS])
def test_every_reason_has_a_row_with_code_message_verdict_and_figures(
    reason: Reason, numbers: dict[str, int | str], sentence: str
) -> None:
    one, is_dear = rejection(reason, numbers, measured=True), reason is Reason.COSTS_MORE
    found = candidates_with(one)
    (each,) = [each for each in (*found.shown, *found.dear) if each.verdict != "chosen"]
    assert (each.reason, each.message) == (reason.value, sentence)
    assert (each.verdict, each.symbol) == (("no", "\u2717") if reason in FAILS else ("fits", "\u2713"))
    assert (each.bar is None) is is_dear
    estimate = FIGURES.estimate
    need = f"{estimate.computed_bytes / GIB:,.1f} / {estimate.budget_bytes / GIB:,.1f}"
    need = "no memory figures" if is_dear else need
    text = shown(found).text
    for words in (reason.value, rejection_sentence(one), f"{each.symbol} {each.verdict}", need, "$"):
        assert words in text


@every_case(("reason", "numbers", "sentence"), UNMEASURED, ids=[each[0].value for each in UNMEASURED])
def test_a_reason_without_figures_stands_in_the_folded_list(
    reason: Reason, numbers: dict[str, int | str], sentence: str
) -> None:
    found = candidates_with(rejection(reason, numbers, measured=False))
    (each,) = found.impossible
    assert (each.verdict, each.symbol, each.bar, each.figures) == ("no", "\u2717", None, None)
    text = shown(found).text
    assert f"{H100} \u00d7 2 {reason.value} {sentence}" in text
    assert "1 split has no figures" in text


def test_the_reasons_above_are_all_that_there_are() -> None:
    assert {reason for reason, _, _ in REJECTIONS} == set(Reason)


def test_a_candidate_over_its_line_is_not_called_fitting_and_its_neighbour_is() -> None:
    over = replace(FIGURES, estimate=replace(FIGURES.estimate, budget_bytes=FIGURES.estimate.least_bytes - GIB))
    numbers = {"need_bytes": 2 * GIB, "have_bytes": GIB}
    (no,) = candidates_with(Rejection(L4, Split(2), Reason.TOO_LITTLE_VRAM, tuple(numbers.items()), over)).shown[1:]
    assert (no.verdict, no.bar is not None and no.bar.over is not None) == ("no", True)
    (fits,) = [
        each
        for each in candidates_with(rejection(Reason.LEFT_RECENTLY, {}, measured=True)).shown
        if each.verdict != "chosen"
    ] or candidates_with(rejection(Reason.LEFT_RECENTLY, {}, measured=True)).dear
    assert (fits.verdict, fits.bar is not None and fits.bar.over is None) == ("fits", True)


def test_an_admins_figure_decides_the_verdict() -> None:
    """Placement uses it in the place of the computed need, so the verdict does as well."""
    estimate = replace(FIGURES.estimate, budget_bytes=40 * GIB)
    forced = [replace(FIGURES, estimate=replace(estimate, forced_bytes=size * GIB)) for size in (41, 39)]
    found = candidates_with(
        *(Rejection(L4, Split(degree), Reason.LEFT_RECENTLY, (), each) for degree, each in enumerate(forced, 1))
    )
    verdicts = {each.split: each.verdict for each in (*found.shown[1:], *found.dear)}
    assert verdicts == {Split(1): "no", Split(2): "fits"}


def candidate(name: str, spare: int, price: str | None, verdict: str = "fits") -> CandidateRow:
    figures = Figures(10 * GIB, 0, 0, 0, 0, 0, (10 + spare) * GIB, 80 * GIB, 1, 2, fit=Fit.SURE)
    return CandidateRow(name, Split(1), verdict, "CostsMore", "m", figures, price)


def test_what_fits_comes_first_by_price_then_what_does_not_by_what_is_missing() -> None:
    chosen = candidate("chosen", 5, "2.00", "chosen")
    others = [
        candidate("far", -9, "1.00", "no"),
        candidate("unpriced", 1, None),
        candidate("third", 1, "3.99"),
        candidate("near", -1, "9.00", "no"),
        candidate("second", 1, "2.50"),
        candidate("dear", 1, "4.00"),
        CandidateRow("none", Split(1), "no", "NodeTooSmall", "m"),
    ]
    found = sorted_candidates(chosen, others, 3)
    assert [each.gpu_type for each in found.shown] == ["chosen", "second", "third", "unpriced", "near", "far"]
    assert [each.gpu_type for each in found.dear] == ["dear"]
    assert [each.gpu_type for each in found.impossible] == ["none"]
    assert (found.count, found.omitted) == (8, 3)
    text = shown(found).text
    assert "1 more fits and costs at least twice as much" in text
    assert "3 further rejections are not kept" in text


def test_without_a_priced_choice_nothing_is_dear() -> None:
    found = sorted_candidates(candidate("chosen", 5, None, "chosen"), [candidate("other", 1, "99.00")])
    assert [each.gpu_type for each in found.shown] == ["chosen", "other"]
    assert found.dear == ()


def test_prices_are_compared_with_the_choice() -> None:
    found = candidates_with(rejection(Reason.LEFT_RECENTLY, {}, measured=True))
    (other,) = [each for each in (*found.shown, *found.dear) if each.verdict != "chosen"]
    assert other.difference == "+633 %"
    assert found.shown[0].difference == ""
