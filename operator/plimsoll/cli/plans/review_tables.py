"""A review as a table for people."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from plimsoll.app.review.values import Review, Verdict
from plimsoll.cli.plans.review_words import bill_text, change_text, others_text, places_text, price_text, why_text
from plimsoll.cli.plans.tables import print_details, print_ignored


def print_review(console: Console, review: Review) -> None:
    """Print the difference, the bill, and the details of the objects of the files that change."""
    table = Table("DEPLOYMENT", "CHANGE", "NOW", "AFTER", "$/h NOW", "$/h AFTER", "WHY", box=None)
    for change in review.changes:
        table.add_row(
            str(change.key),
            change_text(change),
            places_text(change.before),
            places_text(change.after),
            price_text(change.before),
            price_text(change.after),
            why_text(change),
        )
    console.print(table)
    for line in (others_text(review), bill_text(review.bill)):
        if line:
            console.print(line, highlight=False)
    for change in review.changes:
        if change.verdict is Verdict.KEPT or not change.where:
            continue
        console.rule(str(change.key), align="left")
        if not change.is_served:
            console.print(change.message, highlight=False, markup=False)
        print_details(console, change.status)
    print_ignored(console, review.fleet.ignored)
