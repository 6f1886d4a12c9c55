"""Digests in place of names, the same for a name wherever it is.

A salt that is not kept makes them different in each file. Each digest has a number in front of it that keeps the
alphabetical order of the names: the operator breaks ties by name, so it breaks them in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

_DIGITS = 6
_LONG_DIGITS = 12


class Pseudonyms:
    """The names of one snapshot.

    Args:
        salt: random text.
        nodes: names of nodes.
        namespaces: names of namespaces.
        names: names of other objects.
    """

    def __init__(self, salt: str, nodes: Iterable[str], namespaces: Iterable[str], names: Iterable[str]) -> None:
        self._salt = salt
        self._nodes = self._numbered("node", nodes)
        self._namespaces = self._numbered("ns", namespaces)
        self._names = self._numbered("name", names)

    def node(self, name: str) -> str:
        """The digest of a node's name."""
        return self._nodes.get(name) or f"node-{self._digest('node', name)}"

    def namespace(self, name: str) -> str:
        """The digest of a namespace; cluster-wide objects have none."""
        return self._namespaces.get(name) or (f"ns-{self._digest('ns', name)}" if name else "")

    def name(self, name: str) -> str:
        """The digest of any other name."""
        return self._names.get(name) or f"name-{self._digest('name', name)}"

    def uid(self, uid: str) -> str:
        """The digest of a uid."""
        return self._digest("uid", uid, _LONG_DIGITS)

    def word(self, word: str) -> str:
        """The digest of the key or the value of a label or a taint; nothing stays nothing."""
        return f"w-{self._digest('word', word, _LONG_DIGITS)}" if word else ""

    def _numbered(self, kind: str, names: Iterable[str]) -> Mapping[str, str]:
        ordered = sorted({name for name in names if name})
        width = len(str(len(ordered)))
        return {
            name: f"{kind}-{number:0{width}}-{self._digest(kind, name)}" for number, name in enumerate(ordered, start=1)
        }

    def _digest(self, kind: str, text: str, digits: int = _DIGITS) -> str:
        return sha256(f"{self._salt}/{kind}/{text}".encode()).hexdigest()[:digits]
