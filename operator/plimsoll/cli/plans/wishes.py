"""The objects of the user's files as a live cluster would get them."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll.app.review.values import Wish
from plimsoll.cli.reading.documents import Located, check_located, parse_located
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.keys import ObjectKey


def wishes_of(found: Sequence[Located], namespace: str) -> tuple[list[Wish], list[str]]:
    """Return the usable objects, and what is wrong with the others.

    ``namespace`` is that of objects that name none.
    """
    problems: list[str] = []
    places: dict[ObjectKey, list[Wish]] = {}
    for each in found:
        try:
            parse_located(each)
            check_located(each)
        except PlimsollError as error:
            problems.append(str(error))
            continue
        head = {**each.body["metadata"], "namespace": each.body["metadata"].get("namespace") or namespace}
        wish = Wish(each.where, {**each.body, "metadata": head})
        places.setdefault(wish.key, []).append(wish)
    problems += [_twice(key, wishes) for key, wishes in places.items() if len(wishes) > 1]
    return [wishes[0] for wishes in places.values() if len(wishes) == 1], problems


def _twice(key: ObjectKey, wishes: Sequence[Wish]) -> str:
    error = InvalidInput(
        "metadata.name", f"{key.namespace}/{key.name}", "Give every InferenceDeployment a name of its own."
    )
    return f"{wishes[-1].where}: {error} It is also the name of {', '.join(each.where for each in wishes[:-1])}."
