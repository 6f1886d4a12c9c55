"""Where the weights of a model come from, and where the pods of a deployment find them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

WEIGHTS_PATH = "/plimsoll/weights"
"""Where a volume with weights is mounted in the pods of engines."""

PROGRESS_PATH = "/progress"
"""Where a download answers how far it is, on the port that engines have."""

NOT_WORTH_A_TRY = 3
"""The exit status of a download that fails again if it is tried again: no such model, no right, no room."""

_LONGEST_WORDS = 80
_DIGITS = 12
_MOST_BYTES = 2**53


class Scheme(StrEnum):
    """The kinds of sources: a Hugging Face Hub, two kinds of object storage, and images of a registry."""

    HUB = "hf"
    S3 = "s3"
    GS = "gs"
    OCI = "oci"


BUCKETS = (Scheme.S3, Scheme.GS)
"""Sources whose files are listed and read with credentials of their own."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of one deployment.

    Attributes:
        source: ``hf://OWNER/NAME``, ``s3://BUCKET/PREFIX``, ``gs://BUCKET/PREFIX`` or ``oci://IMAGE``.
        revision: branch, tag or commit on the hub; None for its default branch.
        claim: the PersistentVolumeClaim that holds a copy; None: there is none.
        secret: the Secret with the credentials of the source, as variables; None: none are needed.
        draft: those of the draft for speculative decoding, on the same claim; None: there is none, or no claim.
    """

    source: str
    revision: str | None = None
    claim: str | None = None
    secret: str | None = None
    draft: Weights | None = None

    @property
    def scheme(self) -> Scheme:
        """The kind of the source."""
        return Scheme(self.source.partition("://")[0])

    @property
    def reference(self) -> str:
        """The source without its scheme."""
        return self.source.partition("://")[2]

    @property
    def identity(self) -> str:
        """Hex digits that differ for other files: another source or revision."""
        return sha256(f"{self.source}@{self.revision or ''}".encode()).hexdigest()[:_DIGITS]

    @property
    def copy_identity(self) -> str:
        """Hex digits that differ for other files, those of the draft included, or another claim."""
        draft = "" if self.draft is None else f"+{self.draft.identity}"
        return sha256(f"{self.claim}/{self.identity}{draft}".encode()).hexdigest()[:_DIGITS]

    @property
    def folder(self) -> str:
        """The folder on the claim: readable, and the same for all deployments of this source and revision."""
        words = re.sub(r"[^A-Za-z0-9._]+", "-", self.reference).strip("-.")[:_LONGEST_WORDS]
        return f"{words}-{self.identity}"

    @property
    def address(self) -> str:
        """The argument for the engine: a folder of its pod, or an address that it reads itself."""
        if self.claim is not None:
            return f"{WEIGHTS_PATH}/{self.folder}"
        return WEIGHTS_PATH if self.scheme is Scheme.OCI else self.source


@dataclass(frozen=True, slots=True)
class CopyTool:
    """The tool that copies weights: Plimsoll's own ``image``, and the ``hub`` that the operator asks; empty: usual."""

    image: str
    hub: str = ""


class WeightsState(StrEnum):
    """How far the copy on a claim is."""

    AWAITED = "Awaited"
    ARRIVING = "Arriving"
    READY = "Ready"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class WeightsProgress:
    """The progress of a download: bytes that are there, bytes in all (0: not known yet), and bytes per second."""

    copied_bytes: int = 0
    total_bytes: int = 0
    bytes_per_second: int = 0

    @property
    def remaining_seconds(self) -> int | None:
        """How long the rest takes at this rate; None if that cannot be said."""
        if not self.total_bytes or self.bytes_per_second <= 0:
            return None
        return -(-max(0, self.total_bytes - self.copied_bytes) // self.bytes_per_second)

    def document(self) -> dict[str, int]:
        """The figures as a download answers them."""
        return {
            "copiedBytes": self.copied_bytes,
            "totalBytes": self.total_bytes,
            "bytesPerSecond": self.bytes_per_second,
        }

    @staticmethod
    def of(document: object) -> WeightsProgress | None:
        """Read an answer; None if it is none. Anybody may answer at an address: the figures are bounded."""
        if not isinstance(document, dict):
            return None
        found = [document.get(name) for name in ("copiedBytes", "totalBytes", "bytesPerSecond")]
        figures = [each for each in found if type(each) is int and 0 <= each <= _MOST_BYTES]
        return WeightsProgress(*figures) if len(figures) == len(found) else None


@dataclass(frozen=True, slots=True)
class WeightsView:
    """The copy on a claim as it is now.

    Attributes:
        weights: what is wanted.
        state: how far it is.
        progress: what its download reports; None: nothing yet.
        message: why it failed, in the words of the download; empty otherwise.
        again_at: when a failed download is tried again, in POSIX seconds; None: it did not fail.
    """

    weights: Weights
    state: WeightsState
    progress: WeightsProgress | None = None
    message: str = ""
    again_at: float | None = None

    @property
    def is_ready(self) -> bool:
        """Whether engines may load it."""
        return self.state is WeightsState.READY
