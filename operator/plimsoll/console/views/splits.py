"""A split in short words: the GPUs of one stage, and stages and engines where there are several."""

from __future__ import annotations

from plimsoll.domain.outcomes import Split


def split_words(split: Split) -> str:
    """Return how a replica is divided over GPUs."""
    words = [f"\u00d7 {split.tensor_parallel}"]
    if split.pipeline_parallel > 1:
        words.append(f"\u00d7 {split.pipeline_parallel} stages")
    if split.data_parallel > 1:
        words.append(f"\u00d7 {split.data_parallel} engines")
    if split.expert_parallel:
        words.append("whole experts")
    return " ".join(words)
