"""The forms of reports of engines about their memory, and a registry of the image, as a status keeps it."""

from __future__ import annotations

from plimsoll import __version__
from plimsoll.api.v1alpha1.status import ImagePlatformsStatus, ObservationStatus
from plimsoll.domain.decisions.observations import EngineKind, Observation, Seen, Witness
from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE, EngineVersion
from plimsoll.domain.engines.images import LINUX, ImagePlatforms, PlatformSource
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.status.record.forms import Field, Form, Unusable, unless, word
from plimsoll.status.record.places import KNOWN_LIMITS, SPLIT


def _version(text: str) -> EngineVersion:
    try:
        return EngineVersion.of(text)
    except (TypeError, ValueError) as error:
        raise Unusable(f"engineVersion {text!r} is no release") from error


def _doubt(seen: Observation) -> str:
    is_sound = seen.limits.step_tokens >= 1 and seen.limits.sequences >= 1
    return "" if is_sound else "batchedTokens and maxSequences must be 1 at least"


SEEN = Form(
    Seen,
    ObservationStatus,
    beside=("release",),
    observation=Form(
        Observation,
        kind=Form(
            EngineKind,
            precision=word("precision", Precision),
            kv_precision=word("kv_precision", KvPrecision),
            version=Field("engine_version", str, _version),
            split=SPLIT,
            engine=unless("engine", DEFAULT_ENGINE),
            image=unless("own_image", ""),
        ),
        witness=word("witness", Witness),
        limits=KNOWN_LIMITS,
        unkept=("predicted_weights_bytes", "weights_bytes", "predicted_activations_bytes", "activations_bytes"),
        doubt=_doubt,
    ),
)
"""The observations of another release are not read: it predicted with another memory law."""


def observation_entry(seen: Seen) -> ObservationStatus:
    """Return an observation of this release as an entry of ``status.observations``."""
    return ObservationStatus(**SEEN.fields(seen, release=__version__))


PLATFORMS = Form(
    ImagePlatforms,
    ImagePlatformsStatus,
    architectures=Field(
        "platforms",
        lambda architectures: [f"{LINUX}{each}" for each in architectures],
        lambda names: tuple(each.removeprefix(LINUX) for each in names or ()),
    ),
    source=word("source", PlatformSource),
    image=Field("reference"),
    why=unless("unread", ""),
)


def recorded_platforms(entry: ImagePlatformsStatus | None, given: ImagePlatforms) -> ImagePlatforms | None:
    """The platforms that were found for the image that ``given`` names; None if they are another image's."""
    return None if entry is None or not given.image or entry.reference != given.image else PLATFORMS.read(entry)
