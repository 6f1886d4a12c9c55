"""Where weights are published: the files of a model on a hub, and the objects below a prefix of a bucket."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Protocol

import httpx2
import obstore
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils._headers import build_hf_headers
from obstore.exceptions import (
    InvalidPathError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import GCSStore, S3Store

from plimsoll.domain.errors import InvalidInput, PlimsollError, SourceUnavailable
from plimsoll.domain.requests.weights import Scheme
from plimsoll.domain.units import MIB

_PIECE_BYTES = 4 * MIB
_READ_SECONDS = 60.0
"""How long a server may send nothing. A mirror that fetches a file first is quiet for a while."""

_OTHER_FORMATS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.onnx", "*.ot", "*.gguf", "*.tflite")
"""Formats of weights that are left out if there are safetensors files: no engine reads both."""

_NEVER = ("original/*", ".*", "*/.*")
"""Files that no engine reads: the authors' own format in a folder of that name, and settings of Git."""

_LONGEST_WORDS = 300
_REFUSED = re.compile("401 Unauthorized|403 Forbidden")
_DENIED = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN)


class NotWorthATry(PlimsollError):
    """The same download fails again if it is tried again: a person has to change something."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """One file: its path below the source, its size in bytes, and its SHA-256 in hex; empty if nobody publishes it.

    ``tag`` differs for other content, as far as the source says: the object's ETag, or Git's name of the file.
    """

    path: str
    size: int
    sha256: str = ""
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """The files of a source, and the version that they are of; empty if the source has no versions."""

    files: tuple[PublishedFile, ...]
    version: str = ""

    @property
    def total_bytes(self) -> int:
        """The bytes of all files."""
        return sum(each.size for each in self.files)


class WeightsSource(Protocol):
    """A source lists its files once, and reads each from any byte on. Calls block."""

    def published(self) -> Published:
        """List the files that an engine reads.

        Raises:
            NotWorthATry: there is nothing, or nobody may read it.
            SourceUnavailable: the source does not answer.
        """

    def read(self, file: PublishedFile, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file from ``start`` on. Raises the same."""

    def close(self) -> None:
        """End all connections."""


def _endpoint() -> str | None:
    """The hub's address; None for the public one. Its library reads the variable at its import alone."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or None


def source_of(address: str, revision: str | None) -> WeightsSource:
    """Return the source of an address. Raises :class:`InvalidInput`."""
    scheme, _, reference = address.partition("://")
    if scheme == Scheme.HUB.value:
        return HubSource(reference, revision)
    if scheme in (Scheme.S3.value, Scheme.GS.value) and reference:
        return BucketSource(address, os.environ)
    raise InvalidInput("SOURCE", address, "Write hf://OWNER/NAME, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX.")


@dataclass(slots=True)
class HubSource:
    """A model of the hub that ``HF_ENDPOINT`` names. ``HF_TOKEN`` is the token, as everywhere in the hub's library."""

    name: str
    revision: str | None = None
    _commit: str = ""
    _client: httpx2.Client = field(
        default_factory=lambda: httpx2.Client(timeout=_READ_SECONDS, follow_redirects=True, headers=build_hf_headers())
    )

    def published(self) -> Published:
        """List the files of the revision, with the checksums of the large ones."""
        asked = f"{self.name} at revision {self.revision or 'main'}"
        try:
            hub = HfApi(endpoint=_endpoint())
            found = hub.model_info(self.name, revision=self.revision, files_metadata=True, timeout=_READ_SECONDS)
        except GatedRepoError as error:
            raise NotWorthATry(f"{asked} is gated: accept its licence, and name a Secret with a token.") from error
        except RevisionNotFoundError as error:
            raise NotWorthATry(f"{self.name} has no revision {self.revision}: name a branch, tag or commit.") from error
        except (RepositoryNotFoundError, HFValidationError) as error:
            raise NotWorthATry(f"{asked} was not found: check the name, or name a Secret with a token.") from error
        except (HfHubHTTPError, httpx2.HTTPError, OSError) as error:
            raise SourceUnavailable(f"the hub did not list {asked}: {error}") from error
        self._commit = found.sha or self.revision or "main"
        files = (
            PublishedFile(each.rfilename, each.size or 0, each.lfs.sha256 if each.lfs else "", each.blob_id or "")
            for each in found.siblings or ()
        )
        return Published(_wanted(files, asked), self._commit)

    def read(self, file: PublishedFile, start: int) -> Iterator[bytes]:
        """Yield the bytes of a file of the commit that was listed."""
        url = hf_hub_url(self.name, file.path, revision=self._commit, endpoint=_endpoint())
        headers = {"Range": f"bytes={start}-"} if start else {}
        try:
            with self._client.stream("GET", url, headers=headers) as answer:
                if answer.status_code in _DENIED:
                    raise NotWorthATry(f"the hub does not give {file.path} of {self.name} to this token.")
                if not answer.is_success:
                    raise SourceUnavailable(f"the hub answered HTTP {answer.status_code} for {file.path}")
                if start and answer.status_code != httpx2.codes.PARTIAL_CONTENT:
                    raise SourceUnavailable(f"the hub does not go on with {file.path}: it sends it from its beginning")
                yield from answer.iter_bytes(_PIECE_BYTES)
        except httpx2.HTTPError as error:
            raise SourceUnavailable(f"{file.path}: {type(error).__name__} {error}") from error

    def close(self) -> None:
        """End all connections."""
        self._client.close()


@dataclass(slots=True)
class BucketSource:
    """The objects below a prefix of a bucket, with credentials from the environment as the clouds' own tools read them.

    Without credentials objects that everybody may read are read.
    """

    address: str
    environment: Mapping[str, str]
    _store: S3Store | GCSStore = field(init=False)

    def __post_init__(self) -> None:
        kind: type[S3Store | GCSStore] = S3Store if self.address.startswith("s3://") else GCSStore
        options: dict[str, object] = {} if self._has_credentials else {"skip_signature": True}
        if self.environment.get("AWS_ENDPOINT_URL", "").startswith("http://"):
            options["client_options"] = {"allow_http": True}
        try:
            self._store = kind.from_url(self.address.rstrip("/"), **options)  # type: ignore[arg-type]
        except (UnknownConfigurationKeyError, InvalidPathError, ValueError) as error:
            raise InvalidInput("SOURCE", self.address, f"It cannot be read: {error}.") from error

    @property
    def _has_credentials(self) -> bool:
        own = (
            "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT",
            "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_SERVICE_ACCOUNT_PATH",
        )  # fmt: skip
        return any(self.environment.get(name) for name in own)

    def published(self) -> Published:
        """List the objects below the prefix."""
        with _bucket_errors(self.address):
            listed = [each for page in obstore.list(self._store) for each in page]
        files = (PublishedFile(str(each["path"]), int(each["size"]), tag=str(each["e_tag"] or "")) for each in listed)
        return Published(_wanted(files, self.address))

    def read(self, file: PublishedFile, start: int) -> Iterator[bytes]:
        """Yield the bytes of an object."""
        with _bucket_errors(f"{self.address}/{file.path}"):
            answer = obstore.get(self._store, file.path, options={"range": {"offset": start}} if start else {})
            for piece in answer.stream(min_chunk_size=_PIECE_BYTES):
                yield bytes(piece)

    def close(self) -> None:
        """End nothing: the store ends its own connections."""


class _bucket_errors:  # noqa: N801 - used like a function
    """Turn the store's errors into ours. For a list that is refused it has no class of its own, only the words."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        said = str(error)
        if isinstance(error, NotFoundError) or "404 Not Found" in said:
            raise NotWorthATry(f"{self._what} does not exist: check bucket and prefix.") from error
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _REFUSED.search(said):
            raise NotWorthATry(f"{self._what} may not be read: check the Secret of the source.") from error
        if isinstance(error, Exception) and not isinstance(error, PlimsollError):
            raise SourceUnavailable(f"{self._what}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:_LONGEST_WORDS]


def _wanted(files: Iterator[PublishedFile], where: str) -> tuple[PublishedFile, ...]:
    """Return the files that an engine reads.

    Raises:
        NotWorthATry: there is no file, no configuration, or a path that leads out of the folder.
    """
    listed = sorted(files, key=lambda each: each.path)
    for each in listed:
        if each.path.startswith("/") or ".." in each.path.split("/") or "\\" in each.path:
            raise NotWorthATry(f"{where} has a file whose path leads out of its folder: {each.path!r}.")
    found = [each for each in listed if not _matches(each.path, _NEVER)]
    if any(each.path.endswith(".safetensors") for each in found):
        found = [each for each in found if not _matches(each.path, _OTHER_FORMATS)]
    if not any(each.path in ("config.json", "params.json") for each in found):
        raise NotWorthATry(f"{where} has no config.json: name the folder of a model in the Transformers format.")
    return tuple(found)


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
