"""What is said of facts that nobody has checked, beside the placement made from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plimsoll.domain.model import Evidence, ModelFacts
from tests.support.planning import H100, fleet, node, placed, request


def _warnings(model: ModelFacts) -> tuple[str, ...]:
    return placed(replace(request(), model=model), fleet(node("h", H100))).warnings


def test_remarks_on_the_checkpoint_are_passed_on() -> None:
    assert _warnings(replace(request().model, remarks=("The checkpoint stores more.",))) == (
        "The checkpoint stores more.",
    )


@pytest.mark.parametrize(
    ("evidence", "told"),
    [
        (Evidence.TENSORS, "its weights are those that the checkpoint stores"),
        (Evidence.GENERIC, "its fields were read"),
    ],
)
def test_an_unknown_class_is_told_with_what_was_read_instead(evidence: Evidence, told: str) -> None:
    (warning,) = _warnings(replace(request().model, evidence=evidence))
    assert told in warning
    assert "is not known here" in warning
