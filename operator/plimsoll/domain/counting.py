"""Numbers with their nouns and verbs: ``1 pod waits``, ``2 pods wait``, ``1 of 3 replicas serves``."""

from __future__ import annotations


def agreed(number: int | str, one: str, many: str) -> str:
    """Return the words for this number: those for one thing, or those for several and for none."""
    return one if str(number) == "1" else many


def counted(number: int | str, noun: str) -> str:
    """Return a number and its noun. ``noun`` is that of one thing, and its plural ends with an s."""
    return f"{number} {agreed(number, noun, f'{noun}s')}"


def counted_of(part: int | str, whole: int | str, noun: str, one: str, many: str) -> str:
    """Return a part of several things and what they do: ``1 of 3 replicas serves``, ``0 of 1 replica serves``.

    The noun follows the whole and the verb the part, but for none of one thing. ``one`` and ``many`` are the verb.
    """
    verb = one if "1" in (str(part), str(whole)) else many
    return f"{part} of {counted(whole, noun)} {verb}"
