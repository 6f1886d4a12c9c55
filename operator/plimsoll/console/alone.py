"""The calculator without a server: a page that runs in a browser asks these functions."""

from __future__ import annotations

from urllib.parse import parse_qs

from plimsoll.cli.answers.estimate_json import document_of
from plimsoll.cli.forms import text_of
from plimsoll.console.rendering import rendered
from plimsoll.console.views.calculator.form import read_form
from plimsoll.console.views.calculator.page import answer_of, calculator_of
from plimsoll.console.views.paging import Query


def page(query: str) -> str:
    """Return the HTML of the form and of the answer to a URL's query. Faults of the question are in the page."""
    return rendered("calculator_main.html", found=calculator_of(_read(query)), action="")


def document(query: str) -> str:
    """Return what ``plimsoll estimate -o json`` prints for the query. Raises :class:`PlimsollError`."""
    return text_of("json", document_of(answer_of(read_form(_read(query)))))


def _read(query: str) -> Query:
    return parse_qs(query.removeprefix("?"), keep_blank_values=True)
