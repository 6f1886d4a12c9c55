"""The inverse questions about one GPU: how long, how many, and how few bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from plimsoll.domain.models.model import Task
from plimsoll.domain.models.precision import KvPrecision
from plimsoll.domain.requests.serving import Request
from plimsoll.memory.inverse import Largest, longest_context, most_sequences, widest_kv_precision
from plimsoll.placement.options.sizing import Sized, fit_of


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """The answers of the memory law for one GPU type and split; None if nothing fits for sure."""

    request: Request
    context: Largest | None
    sequences: Largest | None
    precision: KvPrecision | None

    def sentences(self) -> Iterator[str]:
        """One line for each question."""
        shape = self.request.shape
        requests = f"{shape.concurrency:,} request{'s' if shape.concurrency > 1 else ''}"
        yield f"Longest context for {requests}: {self._context()}."
        if self.request.model.task is Task.POOL:
            yield f"Most requests at the same time, each of which waits for a step: {_number(self.sequences)}."
        else:
            yield f"Most requests of {shape.context_tokens:,} tokens: {_number(self.sequences)}."
        yield f"Widest KV precision: {'none fits' if self.precision is None else self.precision.value}."

    def document(self) -> dict[str, Any]:
        """The same as data. ``orMore``: the search ended there, so more may fit."""
        declared = self.request.model.max_context_tokens
        context = self.context and _entry(self.context) | {"beyondDeclared": self.context.value > declared}
        return {
            "longestContext": context,
            "mostSequences": self.sequences and _entry(self.sequences),
            "widestKvPrecision": None if self.precision is None else self.precision.value,
            "declaredContext": declared,
        }

    def _context(self) -> str:
        """The tokens, with a note if they are more than the model declares."""
        declared = self.request.model.max_context_tokens
        if self.context is None:
            return "none"
        tokens = f"{self.context.value:,} tokens{_more(self.context)}"
        if self.context.value > declared:
            return f"{tokens}, beyond the {declared:,} that the model declares"
        return f"{tokens} (the model declares {declared:,})" if self.context.value == declared else tokens


def limits(request: Request, answer: Sized) -> MemoryLimits:
    """Ask the memory law; this takes about fifty estimates."""
    asked = (request, answer.gpu, answer.split, fit_of)
    return MemoryLimits(request, longest_context(*asked), most_sequences(*asked), widest_kv_precision(*asked))


def _number(found: Largest | None) -> str:
    return "none" if found is None else f"{found.value:,}{_more(found)}"


def _more(found: Largest) -> str:
    return " or more" if found.is_bound else ""


def _entry(found: Largest) -> dict[str, Any]:
    return {"value": found.value, "orMore": found.is_bound}
