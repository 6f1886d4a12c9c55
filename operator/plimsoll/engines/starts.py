"""How an engine was started: its options, as a command line names them or its log, and what the log says besides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import ALL_MEDIA, DraftMethod, EngineVersion, LoraSlots, MediaUse, Residency
from plimsoll.domain.engines.failures import EngineFailure
from plimsoll.domain.models.precision import KvPrecision, Precision


@dataclass(frozen=True, slots=True)
class NamedDrafting:
    """Speculative decoding as it is named. ``draft`` is the name of the draft model; None where there is none."""

    method: DraftMethod
    tokens: int
    draft: str | None = None


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The options of one engine, as far as they are named; None where the engine's default counts.

    ``precision`` is the type of weights that are not quantized, and ``quantizes_to`` the type that the engine makes of
    them if the checkpoint is not quantized. ``quantization`` is the engine's own word for that, whether a law covers it
    or not. ``kv_precision`` None means that the checkpoint decides. ``max_num_seqs`` and ``max_num_batched_tokens`` are
    those of one engine. ``utilization`` is the share of the GPU. ``pools`` means that the engine is started to embed,
    rank or classify. ``unfollowed`` are further arguments that can change the memory and that no law covers.
    ``cache_bytes`` is the size of the KV cache that the user gave, so it says nothing about the other terms.
    ``block_tokens`` are the tokens of a cache block and ``cache_blocks`` the blocks of the whole cache, as given.
    ``model_runner`` is the one of the engine's runners that is named, 1 or 2. ``trusts_code`` means that it may
    run code of the model's repository. ``prefix_caching`` says whether prefixes are kept, and ``plans_ahead`` is false
    where the engine may not plan a step while another one runs.
    """

    precision: Precision | None = None
    quantizes_to: Precision | None = None
    quantization: str | None = None
    kv_precision: KvPrecision | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    utilization: float | None = None
    enforce_eager: bool = False
    media: MediaUse = ALL_MEDIA
    residency: Residency | None = None
    lora: LoraSlots | None = None
    drafting: NamedDrafting | None = None
    pools: bool = False
    unfollowed: tuple[str, ...] = ()
    cache_bytes: int | None = None
    block_tokens: int | None = None
    cache_blocks: int | None = None
    trusts_code: bool = False
    prefix_caching: bool | None = None
    plans_ahead: bool = True
    model_runner: int | None = None


_OPEN, _CLOSE = "\ue000", "\ue001"
_UNRESOLVED = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")


def unresolved(expression: str) -> str:
    """Return the text that stands in a word for an expression whose value is not known, e.g. ``${PORT}``."""
    return f"{_OPEN}{expression.replace(_OPEN, '').replace(_CLOSE, '')}{_CLOSE}"


def unresolved_in(word: str) -> str | None:
    """Return the first such expression in a word; None where the whole word is known."""
    found = _UNRESOLVED.search(word)
    return None if found is None else found[1]


def as_written(word: str) -> str:
    """Return a word with its expressions as they were written."""
    return _UNRESOLVED.sub(lambda found: found[1], word).replace(_OPEN, "").replace(_CLOSE, "")


@dataclass(frozen=True, slots=True)
class StartCommand:
    """The start that a command line describes.

    Attributes:
        engine: the engine's name.
        model: the model as it is written; None where the command names none.
        revision: the revision of the model; None for the newest.
        split: how the replica is divided.
        options: the options that the memory law has a place for, and those that it has none for.
        harmless: flags that change no GPU memory, by their full names.
        notes: sentences about flags that are not known, or that the engine does not take.
        spread: whether further containers run parts of the same replica.
        cache_word: the engine's own word for the format of the KV cache, where one is named.
        conditions: flags that change no memory and can end the start, each with its value: formats of the files of the
            model, adapters, and the tokens of a long prompt in a step.
        unchecked: options with which the engine may end its start: nothing here checks what they need.
        fits_context: whether the engine shortens the context to what fits (``--max-model-len auto``).
    """

    engine: str
    model: str | None
    revision: str | None
    split: Split
    options: StartOptions
    harmless: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    spread: bool = False
    fits_context: bool = False
    cache_word: str | None = None
    conditions: tuple[tuple[str, str], ...] = ()
    unchecked: tuple[str, ...] = ()


class Misfit(NamedTuple):
    """A flag with which the engine does not start for the model that it serves: its value, and what to write."""

    flag: str
    value: object
    fix: str


@dataclass(frozen=True, slots=True)
class ImageRelease:
    """The release that an image's tag names. ``is_plain`` means that the tag names that release and nothing else."""

    version: EngineVersion
    is_plain: bool = True


@dataclass(frozen=True, slots=True)
class StartFigures:
    """The memory that an engine logged, in bytes of one GPU; None where it logged none.

    Of several ranks, the weights and graphs are those of the fullest, and the cache is that of the rank with the least.
    ``consumed_bytes`` is weights and memory outside PyTorch together, which later releases log instead of the latter.
    ``activations_bytes`` does not include the charge for graphs. ``charged_graphs_bytes`` is the engine's own estimate
    that it takes out of the budget, ``graphs_bytes`` what the graphs took. ``kv_tokens`` are those of one engine.
    ``free_bytes`` were free before the weights, and ``spare_bytes`` when the engine was ready, on the rank with the
    least. ``state_slots`` are the states of recurrent layers.
    """

    total_bytes: int | None = None
    weights_bytes: int | None = None
    consumed_bytes: int | None = None
    activations_bytes: int | None = None
    charged_graphs_bytes: int | None = None
    graphs_bytes: int | None = None
    outside_torch_bytes: int | None = None
    kv_bytes: int | None = None
    kv_tokens: int | None = None
    concurrency: float | None = None
    kv_needed_bytes: int | None = None
    longest_context: int | None = None
    free_bytes: int | None = None
    spare_bytes: int | None = None
    state_slots: int | None = None


@dataclass(frozen=True, slots=True)
class StartLog:
    """The last start that a log holds.

    ``build`` is the release as the engine writes it, ``version`` the release that it counts as; empty and None for an
    engine whose log names none. ``gpu_name`` is the name of the GPU, which logs name rarely. ``served`` means that the
    engine was ready for requests. ``complaint`` is why nothing can be learned from the log, as a sentence; empty where
    there is no reason. ``since`` and ``before`` are the releases that the form of a log without a release may be of.
    ``attention`` is the attention back end and ``window_thousandths`` the ratio of the pool for windows, where the log
    names them.
    """

    engine: str
    build: str
    version: EngineVersion | None
    model: str | None
    split: Split
    options: StartOptions
    figures: StartFigures
    gpu_name: str | None = None
    failure: EngineFailure | None = None
    served: bool = False
    complaint: str = ""
    since: EngineVersion | None = None
    before: EngineVersion | None = None
    attention: str | None = None
    window_thousandths: int | None = None
