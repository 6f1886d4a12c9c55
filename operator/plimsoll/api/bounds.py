"""Limits and defaults of the spec's fields, for modules that do not import the API's models (pydantic is slow)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plimsoll.domain.engines.engine_choice import ANY_ENGINE, DEFAULT_ENGINE, EngineVersion

if TYPE_CHECKING:
    from plimsoll.engines.base import Engine

MOST_TOKENS = 100_000_000
MOST_CONCURRENCY = 65_536
STEP_TOKENS = (64, 1_048_576)
"""Smallest and largest number of tokens in an engine step."""

MOST_CHARACTERS = 262_144
MOST_MEMBERS = 8192
MOST_LEVELS = 64
"""The most that metadata and spec of one object may hold, and a free-form field of it. Of the models whose estimates
are measured, the largest ``config.json`` has 56,335 characters, 1,559 members and 6 levels."""

ENGINE_VERSION = r"^[0-9]{1,3}\.[0-9]{1,3}(\.[0-9]{1,3})?$"
DEFAULT_ENGINE_VERSION = "0.32.0"
"""The release of the default engine."""
_ENGINE_AND_RELEASE = f"{DEFAULT_ENGINE}:{DEFAULT_ENGINE_VERSION}"
ENGINE_HELP = (
    f"Release of the engine, e.g. {DEFAULT_ENGINE_VERSION}, or the engine too: {_ENGINE_AND_RELEASE}; {ANY_ENGINE} "
    "compares the engines."
)
"""How people name an engine and its release, in the command line and in the calculator."""
DEFAULT_UTILIZATION_PERCENT = 92
UTILIZATION_PERCENT = (10, 98)
"""Smallest and largest share of a GPU's usable memory that an engine may be given."""
OBJECTIVES = ("Interactive", "Balanced", "Batch")
"""The words of ``spec.objective``."""
USUAL_OBJECTIVE = "Balanced"
"""The word that holds if neither a manifest nor the cluster's admin says another one."""
EXPECTED_SIZING = "Expected"
"""The word of ``spec.sizing`` for mean lengths."""

USUAL_RELEASES = {DEFAULT_ENGINE: DEFAULT_ENGINE_VERSION, "sglang": "0.5.23"}
"""By engine, the release that counts if nobody names one. ``v1alpha1`` keeps them: another release would start all
engines anew whose manifests name none."""


def usual_release(engine: Engine) -> EngineVersion:
    """Return the release of an engine that counts if nobody names one; without a row, the oldest that is known."""
    found = USUAL_RELEASES.get(engine.name)
    return engine.oldest if found is None else EngineVersion.of(found)
