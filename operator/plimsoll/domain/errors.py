"""Plain domain errors. The shell maps them to retries and conditions. This module does not depend on Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

_LONGEST_FIELD = 200
_LONGEST_VALUE = 120
_MOST_OTHERS = 4
"""The most further errors that one message has in full."""


class PlimsollError(Exception):
    """The base class of every error that this project raises on purpose."""


def shortened(value: object) -> str:
    """Return the ``repr`` of a value, cut to a length that fits a status and a log line. It never fails.

    ``repr`` itself fails for integers of more than 4,300 digits and for structures that are too deep.
    """
    if isinstance(value, int) and value.bit_length() > 64:  # noqa: PLR2004 - no integer of the API is larger
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value[:_LONGEST_VALUE]) if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}>"
    if isinstance(value, str) and len(value) > _LONGEST_VALUE:
        return f"{text}..."
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


class InvalidInput(PlimsollError):
    """A field of the user's input has an unusable value.

    Args:
        field: dotted path of the field, as the user writes it.
        value: the value of the field; the message shows a short form of it. None: there is none, or null.
        fix: how to correct the field, as an imperative sentence.
        others: what else cannot be used. The message has a sentence for each, so that all are mended at once.
    """

    verdict: ClassVar[str] = "cannot be used"

    def __init__(self, field: str, value: object, fix: str, others: Sequence[InvalidInput] = ()) -> None:
        named = field if len(field) <= _LONGEST_FIELD else f"{field[:_LONGEST_FIELD]}..."
        wrong = "a value is missing" if value is None else f"{shortened(value)} {self.verdict}"
        said = [f"{named}: {wrong}. {fix}", *map(str, others[:_MOST_OTHERS])]
        left = len(others) - _MOST_OTHERS
        super().__init__(" ".join([*said, f"{left} more fields cannot be used."] if left > 0 else said))
        self.field = field
        self.value = value
        self.fix = fix
        self.others = tuple(others)


class NotPermitted(InvalidInput):
    """A field asks for more than the cluster admin permits in InferenceDeployments."""

    verdict: ClassVar[str] = "is not permitted"


def raise_together(checks: Iterable[Callable[[], None]]) -> None:
    """Make all checks, and raise what they refuse as one error: see :func:`raise_first`."""
    found: list[InvalidInput] = []
    for check in checks:
        try:
            check()
        except InvalidInput as error:
            found.append(error)
    raise_first(found)


def raise_first(refusals: Sequence[InvalidInput]) -> None:
    """Raise the first of these refusals, with all others in its message; nothing if there are none.

    Raises:
        InvalidInput: the first one, of its own kind.
    """
    if refusals:
        first, *others = refusals
        raise type(first)(first.field, first.value, first.fix, (*first.others, *others)) from first


class UnsupportedModel(PlimsollError):
    """The model's configuration needs something that the memory law does not know. It is reported and never guessed.

    Args:
        model: the model's name.
        missing: what is missing, e.g. ``multi-head latent attention (kv_lora_rank)``.
    """

    def __init__(self, model: str, missing: str) -> None:
        super().__init__(f"{model}: no memory law for {missing}")
        self.model = model
        self.missing = missing


class ModelNotFound(PlimsollError):
    """No source knows the model, or the given token may not read it. A retry alone does not help."""


class SourceUnavailable(PlimsollError):
    """Another service (hub, API server, Prometheus) did not answer. A retry may help."""


class RateLimited(SourceUnavailable):
    """A service answers, but not that many requests. ``pause_seconds`` is the pause that it asks for, if it says one.

    The pause is no part of the message: it differs in each answer, and the message becomes a status.
    """

    def __init__(self, message: str, pause_seconds: int | None = None) -> None:
        super().__init__(message)
        self.pause_seconds = pause_seconds
