"""Why there is no token: each cause says what to do about it, and none shows a value."""

from __future__ import annotations

from typing import Any

import pytest

from plimsoll.adapters.cluster.client import SECRETS, ClusterRefused, ObjectKind
from plimsoll.adapters.cluster.secrets import SecretMissing, SecretUnreadable, read_entry
from plimsoll.domain.errors import PlimsollError
from plimsoll.domain.kubernetes_names import ObjectKey

HERE = ObjectKey("team-a", "hugging-face")


async def read(answer: dict[str, Any] | Exception | None, entry: str = "token") -> str:
    async def get(kind: ObjectKind, key: ObjectKey) -> dict[str, Any] | None:
        assert (kind, key) == (SECRETS, HERE)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return await read_entry(get, HERE, entry)


async def test_the_text_is_read_without_the_line_break_that_shells_add() -> None:
    assert await read({"data": {"token": "aGZfeA=="}}) == "hf_x"
    assert await read({"data": {"token": "aGZfeAo="}}) == "hf_x"


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (None, SecretMissing, r"^Secret team-a/hugging-face does not exist yet\.$"),
        ({"data": {"b": "eA==", "a": "eA=="}}, SecretMissing, r"has no key 'token'; its keys are: a, b\.$"),
        ({}, SecretMissing, r"has no key 'token'; its keys are: none\.$"),
        ({"data": {f"k{n:02}": "" for n in range(30)}}, SecretMissing, r"k08, k09 and 20 more\.$"),
        ({"data": {"token": "//79"}}, SecretMissing, "has no text under its key 'token'"),
        ({"data": {"token": "Cg=="}}, SecretMissing, "has no text under its key 'token'"),
        (ClusterRefused("get", 403, "no"), SecretUnreadable, r"may not read .* Role with get .* hub\.tokenSecret"),
        (ClusterRefused("get", 500, "no"), ClusterRefused, "500"),
    ],
)
async def test_each_cause_has_its_own_words(
    answer: dict[str, Any] | Exception | None, kind: type[PlimsollError], text: str
) -> None:
    with pytest.raises(kind, match=text) as failure:
        await read(answer)
    assert "eA==" not in str(failure.value)
