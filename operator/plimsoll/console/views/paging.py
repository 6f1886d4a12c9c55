"""Pages of a long list, and parameters of a URL.

Names of objects as Kubernetes allows them: nothing else may become a part of a request's path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

from plimsoll.domain.kubernetes_names import ObjectKey

PAGE_SIZE = 100

T = TypeVar("T")


Query = Mapping[str, Sequence[str]]
"""The parameters of a URL, each with all its values in order."""


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """One page of a list. ``previous`` and ``following`` are the addresses of its neighbours; empty for none."""

    items: Sequence[T]
    total: int
    number: int
    pages: int
    previous: str
    following: str


_PAGE = "page"


def address_of(path: str, query: Query, changed: Mapping[str, str]) -> str:
    """Return the address of a page with some parameters changed. Another order or filter begins at its first page."""
    gone = {_PAGE, *changed}
    kept = [(key, value) for key, values in query.items() if key not in gone for value in values if value]
    return f"{path}?{urlencode([*kept, *changed.items()])}"


def part_of(items: Sequence[T], path: str, query: Query, size: int = PAGE_SIZE) -> ListPage[T]:
    """Return the page that ``query['page']`` names, counted from 1. A number beyond the end is the last page."""
    pages = max(1, -(-len(items) // size))
    number = min(pages, max(1, _number(query)))

    def address(other: int) -> str:
        return address_of(path, query, {_PAGE: str(other)}) if 1 <= other <= pages else ""

    start = (number - 1) * size
    return ListPage(items[start : start + size], len(items), number, pages, address(number - 1), address(number + 1))


def _number(query: Query) -> int:
    text = (query.get(_PAGE) or ("1",))[0]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 1  # noqa: PLR2004 - far beyond any list


def first_of(query: Query, name: str) -> str:
    """Return the first value of a parameter without surrounding blanks; empty if there is none."""
    values = query.get(name) or ("",)
    return values[0].strip()


def has_words(search: str, *texts: str) -> bool:
    """Whether each word of a search is in one of the texts, in capitals or not."""
    return all(any(word in text.lower() for text in texts) for word in search.lower().split())


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def is_name(text: str) -> bool:
    """Whether a text is the name of an object or a namespace (DNS subdomain, RFC 1123)."""
    return _NAME.fullmatch(text) is not None


def is_key(key: ObjectKey) -> bool:
    """Whether both parts of a key are names."""
    return is_name(key.namespace) and is_name(key.name)
