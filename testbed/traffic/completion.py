"""One streamed completion, and whether it was answered in full."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass

REQUEST_SECONDS = 600.0
"""Patience with one read of an answer; under overload, on a busy machine, a request waits its turn."""

_PREFIX, _DONE = b"data: ", b"[DONE]"


@dataclass(frozen=True, slots=True)
class Question:
    """A question: a prompt of that many bytes, which are tokens of the tiny model, and the length of the answer."""

    model: str
    prompt: str
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The outcome of a request.

    Attributes:
        pod: address that it was sent to.
        began: POSIX seconds.
        seconds: from the first byte sent to the last byte received.
        first_token_seconds: until the first token; None where none came.
        tokens: tokens in the answer.
        error: why it counts as lost; empty for an answer of the full length.
    """

    pod: str
    began: float
    seconds: float
    first_token_seconds: float | None
    tokens: int
    error: str


def ask(pod: str, address: str, port: int, question: Question) -> Answered:
    """Send one request and read its whole answer. It never raises and never tries again."""
    began, ticked = time.time(), time.monotonic()
    stream = _Stream(ticked)
    try:
        error = stream.read(address, port, question)
    except (OSError, http.client.HTTPException, ValueError, KeyError) as failure:
        error = repr(failure)
    if not error and stream.tokens != question.output_tokens:
        error = f"{stream.tokens} tokens came of {question.output_tokens}"
    return Answered(pod, began, time.monotonic() - ticked, stream.first_token_seconds, stream.tokens, error)


class _Stream:
    """The part of an answer that has come so far."""

    def __init__(self, began: float) -> None:
        self._began = began
        self.tokens = 0
        self.first_token_seconds: float | None = None

    def read(self, address: str, port: int, question: Question) -> str:
        """Read to the end; returns why the answer is not whole, or nothing."""
        connection = http.client.HTTPConnection(address, port, timeout=REQUEST_SECONDS)
        try:
            connection.request("POST", "/v1/completions", _body(question), {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != http.client.OK:
                return f"status {response.status}: {response.read(300).decode(errors='replace')}"
            return self._read_events(response)
        finally:
            connection.close()

    def _read_events(self, response: http.client.HTTPResponse) -> str:
        for line in response:
            event = line.strip()
            if event == _PREFIX + _DONE:
                return ""
            if event.startswith(_PREFIX):
                self._take(json.loads(event.removeprefix(_PREFIX)))
        return "the stream ended early"

    def _take(self, event: dict[str, object]) -> None:
        if event.get("choices") and self.first_token_seconds is None:
            self.first_token_seconds = time.monotonic() - self._began
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.tokens = int(usage["completion_tokens"])


def _body(question: Question) -> str:
    return json.dumps(
        {
            "model": question.model,
            "prompt": question.prompt,
            "max_tokens": question.output_tokens,
            # Random weights end a text at a random place; a test needs to know how long its requests are.
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )
