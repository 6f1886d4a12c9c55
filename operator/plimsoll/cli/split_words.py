"""The degrees of a split, for people, for the command line and as data."""

from __future__ import annotations

from typing import Any

from plimsoll.domain.decisions.outcomes import Split


def split_words(split: Split) -> str:
    """Return the degrees of a split: ``TP 2``, ``TP 4, PP 2``."""
    degrees = (("PP", split.pipeline_parallel), ("DP", split.data_parallel))
    more = "".join(f", {name} {degree}" for name, degree in degrees if degree > 1)
    return f"TP {split.tensor_parallel}{more}{', EP' if split.expert_parallel else ''}"


def split_options(split: Split) -> str:
    """Return the options of ``plimsoll estimate`` that name this split."""
    degrees = (("--pp", split.pipeline_parallel), ("--dp", split.data_parallel))
    more = "".join(f" {name} {degree}" for name, degree in degrees if degree > 1)
    return f"--tp {split.tensor_parallel}{more}{' --ep' if split.expert_parallel and split.data_parallel == 1 else ''}"


def split_document(split: Split) -> dict[str, Any]:
    """Return the degrees as data."""
    return {
        "tensorParallel": split.tensor_parallel,
        "pipelineParallel": split.pipeline_parallel,
        "expertParallel": split.expert_parallel,
        "dataParallel": split.data_parallel,
    }
