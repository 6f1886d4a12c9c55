from __future__ import annotations

from plimsoll.rebalance.law.learning import CapacityReading, error_percent_text
from tests.support.tables import every_case


@every_case(
    ("predicted", "reported", "permille", "text"),
    [
        (1000, 1000, 0, "0.0 %"),
        (1012, 1000, 12, "+1.2 %"),
        (997, 1000, -3, "-0.3 %"),
        (100_001, 100_000, 1, "+0.1 %"),
        (99_999, 100_000, -1, "-0.1 %"),
        (3000, 1000, 2000, "+200.0 %"),
    ],
)
def test_the_error_is_relative_to_what_the_engine_got(predicted: int, reported: int, permille: int, text: str) -> None:
    assert CapacityReading(predicted, reported).error_permille == permille
    assert error_percent_text(permille) == text


def test_an_engine_that_reports_nothing_has_no_error() -> None:
    assert CapacityReading(1000, 0).error_permille is None
    assert CapacityReading(2, 1).error_permille == 1000
