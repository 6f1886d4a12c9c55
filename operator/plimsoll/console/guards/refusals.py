"""A request that a guard refuses: a word, a sentence and a fix for the person."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from plimsoll.domain.errors import PlimsollError


class Refusal(PlimsollError):
    """The console does not answer this request.

    Args:
        status: HTTP status of the answer.
        word: the reason as one word, e.g. ``UnknownHost``.
        sentence: what is wrong. It never holds a token.
        fix: what the person can do, as an imperative sentence.
        headers: further headers of the answer, e.g. ``Retry-After``.
    """

    def __init__(
        self, status: int, word: str, sentence: str, fix: str, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(f"{word}: {sentence} {fix}")
        self.status = status
        self.word = word
        self.sentence = sentence
        self.fix = fix
        self.headers = headers
