"""Doubts about an estimate that no figure removes: the fit is not sure, however much room there is."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from plimsoll.domain.reasons import Numbers


class DoubtKind(StrEnum):
    """The cause of a doubt. Part of the API: kinds are added, and never renamed."""

    GENERIC_READING = "GenericReading"
    """The model class has no row here: its fields were read as most classes use them."""
    NEWER_RELEASE = "NewerRelease"
    """The release of the engine is newer than the newest known memory law."""
    RELEASE_NOT_MEASURED = "ReleaseNotMeasured"
    """The law of the release was read in its sources alone: no start of it was compared with the estimate."""
    FEW_STARTS = "FewStarts"
    """Few starts of models with such layers are known, and they differ."""
    POOLING_NOT_MEASURED = "PoolingNotMeasured"
    """No start of a model that embeds, ranks or classifies was compared with the estimate."""
    NOT_MEASURED = "NotMeasured"
    """Something about the model, the card, the split and the model runner was never measured together."""
    SHARED_MEMORY = "SharedMemory"
    """The GPU shares the memory of its host, where anything else may take it."""
    TRANSFORMERS_BACKEND = "TransformersBackend"
    """The release does not implement the model class: it can load it only through its generic backend."""
    NOT_IN_RELEASE = "NotInRelease"
    """The release as published cannot load the model: only an image of the user's own can."""
    REMOTE_CODE = "RemoteCode"
    """The engine may start only where it may run code of the model's repository."""
    FLOAT32 = "Float32"
    """The engine computes in float32, and its kernels may need more shared memory than the card has."""
    FILES_NOT_KNOWN = "FilesNotKnown"
    """The engine starts with an option only if the repository of the model has a file that is not known here."""
    UNFOLLOWED_OPTIONS = "UnfollowedOptions"
    """The command of an engine has options that can change the memory and that no law covers."""


class Doubt(NamedTuple):
    """One doubt, with the figures of its sentence."""

    kind: DoubtKind
    numbers: Numbers = ()
