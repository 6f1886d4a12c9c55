"""Plain domain errors. The shell maps them to retries and conditions; nothing here knows Kubernetes."""

from __future__ import annotations


class PlimsollError(Exception):
    """The root of every error this project raises on purpose."""


class InvalidInput(PlimsollError):
    """A field of the user's holds something that cannot be used.

    Args:
        field: dotted path of the field, as the user writes it.
        value: what it holds.
        fix: what to write instead, as an imperative sentence.
    """

    def __init__(self, field: str, value: object, fix: str) -> None:
        super().__init__(f"{field}: {value!r} cannot be used. {fix}")
        self.field = field
        self.value = value
        self.fix = fix


class UnsupportedModel(PlimsollError):
    """The model's configuration asks for something the memory law does not know: said, never guessed.

    Args:
        model: the model's name.
        missing: what is missing, e.g. ``multi-head latent attention (kv_lora_rank)``.
    """

    def __init__(self, model: str, missing: str) -> None:
        super().__init__(f"{model}: no memory law for {missing}")
        self.model = model
        self.missing = missing


class ModelNotFound(PlimsollError):
    """No source knows the model, or the token given may not read it. Trying again does not help by itself."""


class SourceUnavailable(PlimsollError):
    """A neighbour (hub, API server, Prometheus) did not answer. Trying again may help."""
