"""The sentence of each doubt about an estimate."""

from __future__ import annotations

from plimsoll.domain.doubts import Doubt, DoubtKind

_SENTENCES = {
    DoubtKind.GENERIC_READING: (
        "The model class {architecture} is not known here: its fields were read as most classes use them. The error "
        "band is wider, and the fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.NEWER_RELEASE: (
        "{title} {release} is newer than {newest}, the newest release with a known memory law: that law was used. The "
        "fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.RELEASE_NOT_MEASURED: (
        "No start of {title} {release} was compared with the estimate: its memory law follows the release's sources "
        "alone. The fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.FEW_STARTS: (
        "Only {starts} starts of models with {layers} are known, and they differ by up to {gib} GiB from the estimate. "
        "The fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.POOLING_NOT_MEASURED: (
        "No start of a model that embeds, ranks or classifies was compared with the estimate, which follows the "
        "engine's sources. The fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.NOT_MEASURED: (
        "No measured start had {pairs}, so the estimate follows the engine's sources there. The fit is never called "
        "sure until an engine of this kind has served."
    ),
    DoubtKind.SHARED_MEMORY: (
        "This GPU shares the memory of its host: the engine finds free what the system, files that were read and other "
        "pods leave of it ({free} GiB of {usable} on kits in use). The fit is never called sure until an engine of "
        "this kind has served."
    ),
    DoubtKind.TRANSFORMERS_BACKEND: (
        "{title} {release} does not implement {lacks}; {served} does. It may load the model through its generic "
        "Transformers backend, if its Transformers library has the class. No figure was checked on that way, and the "
        "fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.NOT_IN_RELEASE: (
        "{title} {release} as published lacks {lacks}; {served} has it. Only an image of your own may load the model, "
        "and the fit is never called sure until an engine of this kind has served."
    ),
    DoubtKind.REMOTE_CODE: (
        "{title} {release} may read the configuration ({kind}) only with code of the model's repository, and it ends "
        "without {flag}. Read that code before you pass the flag. The fit is never called sure without it, until an "
        "engine of this kind has served."
    ),
    DoubtKind.FLOAT32: (
        "{title} computes in float32 here. No measured start did so on such a GPU, and kernels for wide heads may need "
        "more shared memory than it has: then the engine ends, however much GPU memory is free. The fit is never "
        "called sure until an engine of this kind has served."
    ),
    DoubtKind.FILES_NOT_KNOWN: (
        "{title} ends unless the repository of the model has the files that these options ask for, and nothing here "
        "says so: {options}. Leave them out, or ask about a folder that holds the checkpoint."
    ),
    DoubtKind.UNFOLLOWED_OPTIONS: (
        "These options can change the memory, and the memory law does not include them: {options}. The fit is never "
        "called sure until an engine of this kind has served."
    ),
}

_UNHEARD_OF = " The newest release known here is {known}: check the number."


def doubt_sentence(doubt: Doubt) -> str:
    """Return a few sentences for the reader of an estimate."""
    numbers = dict(doubt.numbers)
    text = _SENTENCES[doubt.kind] + (_UNHEARD_OF if "known" in numbers else "")
    return text.format(**numbers)
