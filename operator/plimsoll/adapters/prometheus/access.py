"""How a Prometheus is asked: who asks (token, password, certificate, headers), and under which labels it has pods.

How to prove to a Prometheus who asks: token, password, client certificate, and headers such as a tenant's.
Secrets come from files, because a Secret that is mounted changes in place: every reading reads them anew. No message
holds anything of their contents.

The labels under which Prometheus has a pod's namespace and name, and which of them are believed.
Prometheus gives each series the labels of the target that it scraped. All other labels are the page's own, and a page
may name anybody's pod: as ``exported_pod`` if Prometheus had to rename it, or as ``pod`` if targets have other
labels. So a series whose labels name another namespace as well is not believed: one of the two is that of its target.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from plimsoll.domain.errors import InvalidInput

LARGEST_FILE_BYTES = 64 * 1024
"""Largest file that is read. Tokens have up to some kilobytes; common servers refuse headers above 8 to 32 KiB."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A field name of HTTP (RFC 9110, section 5.1)."""

_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]+")
"""Visible ASCII, spaces and tabs (RFC 9110, section 5.5)."""

_OF_THE_CLIENT = frozenset({"accept-encoding", "connection", "content-length", "host", "transfer-encoding"})
"""Headers that describe the request itself; another value would make it another request."""


class Proof(NamedTuple):
    """Credentials of a request. ``certificate`` is the client's, with its key; ``ca_file`` replaces the system's.

    Two proofs are equal if the contents of their files are: ``digest`` is of them.
    """

    headers: Mapping[str, str]
    ca_file: str | None
    certificate: tuple[str, str] | None
    digest: int


@dataclass(frozen=True, slots=True)
class PrometheusAccess:
    """The files that hold what a Prometheus asks for. None and "" stand for what it does not ask for.

    Attributes:
        token_file: a bearer token.
        user: the name for basic authentication.
        password_file: its password.
        certificate_file: the client's certificate in PEM.
        key_file: its private key in PEM, without a password.
        ca_file: certificates in PEM to verify the server with, instead of the system's.
        headers_file: lines of ``Name: value``, e.g. ``X-Scope-OrgID: team-a``.

    Raises:
        InvalidInput: two settings contradict each other, or one lacks its other half.
    """

    token_file: Path | None = None
    user: str = ""
    password_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    headers_file: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what no request can carry."""
        _together("USER", self.user, "PASSWORD_FILE", self.password_file)
        _together("CERTIFICATE_FILE", self.certificate_file, "KEY_FILE", self.key_file)
        if self.token_file and self.user:
            fix = "A request has one Authorization header: set either the token or the user and the password."
            raise InvalidInput(_variable("TOKEN_FILE"), str(self.token_file), fix)
        if ":" in self.user or not self.user.isprintable():
            raise InvalidInput(_variable("USER"), self.user, "A user of basic authentication has no colon.")

    def proof(self) -> Proof:
        """Read the files.

        Raises:
            InvalidInput: a file cannot be read, or holds what no header may hold. The message names its setting.
        """
        ca_file = _existing("CA_FILE", self.ca_file)
        certificate, key = _existing("CERTIFICATE_FILE", self.certificate_file), _existing("KEY_FILE", self.key_file)
        both = None if certificate is None or key is None else (certificate[0], key[0])
        headers = {**dict(self._lines()), **self._authorization()}
        return Proof(headers, ca_file and ca_file[0], both, hash((ca_file, certificate, key)))

    def _authorization(self) -> dict[str, str]:
        if self.token_file is not None:
            token = _contents("TOKEN_FILE", self.token_file).strip()
            if not _HEADER_VALUE.fullmatch(token):
                fix = "Write one token into it, in a single line of ASCII."
                raise InvalidInput(_variable("TOKEN_FILE"), str(self.token_file), fix)
            return {"Authorization": f"Bearer {token}"}
        if self.password_file is not None:
            password = _contents("PASSWORD_FILE", self.password_file).rstrip("\r\n")
            both = base64.b64encode(f"{self.user}:{password}".encode()).decode("ascii")
            return {"Authorization": f"Basic {both}"}
        return {}

    def _lines(self) -> Iterator[tuple[str, str]]:
        if self.headers_file is None:
            return
        for number, line in enumerate(_contents("HEADERS_FILE", self.headers_file).splitlines(), 1):
            name, _, value = line.partition(":")
            if not line.strip():
                continue
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value.strip()):
                raise _wrong_line(self.headers_file, number, "Write lines of 'Name: value' in ASCII.")
            if name.lower() in _OF_THE_CLIENT:
                raise _wrong_line(self.headers_file, number, f"Remove {name}: the operator sets it.")
            yield name, value.strip()


def _wrong_line(file: Path, number: int, fix: str) -> InvalidInput:
    return InvalidInput(_variable("HEADERS_FILE"), f"{file}, line {number}", fix)


def _variable(name: str) -> str:
    return f"PLIMSOLL_PROMETHEUS_{name}"


def _together(first: str, one: object, second: str, other: object) -> None:
    """Refuse a setting without its other half."""
    if bool(one) == bool(other):
        return
    given, missing, value = (first, second, one) if one else (second, first, other)
    raise InvalidInput(_variable(given), str(value), f"It needs {_variable(missing)} as well.")


def _existing(name: str, file: Path | None) -> tuple[str, str] | None:
    """Return the path and the contents of a file that the TLS library reads itself, once it can be read."""
    return None if file is None else (str(file), _contents(name, file, limit=16 * LARGEST_FILE_BYTES))


def _contents(name: str, file: Path, limit: int = LARGEST_FILE_BYTES) -> str:
    try:
        with file.open("rb") as opened:
            body = opened.read(limit + 1)
        text = body.decode()
    except (OSError, ValueError) as error:
        fix = f"Mount a text file there that the operator can read ({type(error).__name__})."
        raise InvalidInput(_variable(name), str(file), fix) from error
    if not text.strip():
        raise InvalidInput(_variable(name), str(file), "The file is empty: write the value into it.")
    if len(body) > limit:
        raise InvalidInput(_variable(name), str(file), f"The file is too large: it may have {limit} bytes.")
    return text


NO_PROOF = PrometheusAccess()
"""For a Prometheus that asks for nothing."""


LabelPair = tuple[str, str]
"""The label of a pod's namespace and that of its name."""

LABEL_PAIRS: tuple[LabelPair, ...] = (
    ("namespace", "pod"),
    ("exported_namespace", "exported_pod"),
    ("kubernetes_namespace", "kubernetes_pod_name"),
)
"""Labels of a pod's name, in the order in which they are tried: those of the Prometheus operator's monitors, the page's
own if Prometheus had to rename them, and those of the widespread example for annotated pods."""


def places_of(namespace: str, pairs: Sequence[LabelPair]) -> Iterator[tuple[str, str]]:
    """Yield the matchers of a namespace under each pair of labels, and the pair's label of the pod's name."""
    for pair in pairs:
        yield matchers_within([namespace], pair, pairs), pair[1]


def matchers_within(namespaces: Sequence[str], pair: LabelPair, pairs: Sequence[LabelPair]) -> str:
    """Return the matchers of namespaces under one pair of labels. Series that are not believed may match several."""
    if len(namespaces) > 1:
        return f'{pair[0]}=~"{"|".join(namespaces)}"'
    agreeing = (f'{other}=~"|{namespaces[0]}"' for other in other_namespaces(pair, pairs))
    return ",".join((f'{pair[0]}="{namespaces[0]}"', *agreeing))


def other_namespaces(pair: LabelPair, pairs: Iterable[LabelPair]) -> list[str]:
    """Return the labels in which a series under one pair may name a second namespace."""
    return sorted({each[0] for each in pairs} - {pair[0]})


def is_believed(labels: Mapping[str, str], pair: LabelPair, pairs: Iterable[LabelPair]) -> bool:
    """Whether no label of a series names another namespace than the one that it has under ``pair``."""
    return names_only(labels.get(pair[0], ""), labels, other_namespaces(pair, pairs))


def names_only(namespace: str, labels: Mapping[str, str], others: Sequence[str]) -> bool:
    """Whether each of the other labels names this namespace, or none."""
    return labels.keys().isdisjoint(others) or {labels.get(other, "") for other in others} <= {"", namespace}
