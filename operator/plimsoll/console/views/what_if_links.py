"""A change that helps, as a question of What if: the sentence of a status becomes a change that its form reads.

The sentences are those of :func:`plimsoll.placement.explain.remedy_sentence`. A test asks each of its kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from plimsoll.domain.kubernetes_names import ObjectKey


def _set(found: re.Match[str], key: ObjectKey) -> str:
    return f"{key}.{found['field']}={found['value'].replace(',', '')}"


def _nodes(found: re.Match[str], _: ObjectKey) -> str:
    return f"+{found['nodes'] or 1} {found['type']} x{found['gpus']}"


_SPEC = r"spec\.(?P<field>[A-Za-z.]+)"
_CHANGES: Mapping[re.Pattern[str], Callable[[re.Match[str], ObjectKey], str]] = {
    re.compile(rf"lower {_SPEC} from [\d,]+ to (?P<value>[\d,]+)"): _set,
    re.compile(rf"set {_SPEC} to (?P<value>\w+)"): _set,
    re.compile(r"add a node(?P<nodes>) with (?P<gpus>\d+) (?P<type>[\w.-]+)"): _nodes,
    re.compile(r"add (?P<nodes>\d+) nodes? of the group \S+ \((?P<gpus>\d+) (?P<type>[\w.-]+)"): _nodes,
}
"""By what a remedy's sentence begins with. A remedy that is no change of a spec or of nodes has none."""


@dataclass(frozen=True, slots=True)
class WhatIfLink:
    """A change in words, and the page that answers it."""

    words: str
    url: str


def change_of(sentence: str, key: ObjectKey) -> str:
    """Return the change of ``plimsoll plan --what-if`` that a remedy asks for; empty if it cannot be asked."""
    for pattern, change in _CHANGES.items():
        if found := pattern.match(sentence):
            return change(found, key)
    return ""


def what_if_links(sentences: Iterable[str], key: ObjectKey) -> tuple[WhatIfLink, ...]:
    """Return a link for each remedy that can be asked about, in their order."""
    changes = ((each, change_of(each, key)) for each in sentences)
    return tuple(WhatIfLink(words, f"/what-if?{urlencode({'change': change})}") for words, change in changes if change)
