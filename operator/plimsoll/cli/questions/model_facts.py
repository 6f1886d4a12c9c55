"""The facts of a model that is named by its name on the Hub, by a folder of a checkpoint, or by a configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from plimsoll.adapters.local_checkpoint import names_in, read_local_checkpoint
from plimsoll.cli.questions.sources import config_file, document_of, name_of
from plimsoll.cli.reading.model_sources import resolved_facts
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.domain.names import KIND
from plimsoll.facts.models.config_json import read_model_facts


def model_facts(source: str, revision: str | None, field: str) -> ModelFacts:
    """Return the facts of a source. Blocks if the Hub must be asked.

    Raises:
        InvalidInput: ``field``, as the user named the source, cannot be used.
        PlimsollError: no source knows the model, or it has a part without a memory law.
    """
    document = document_of(source, field)
    if Path(source).is_dir():
        return checkpoint_facts(Path(source))
    if document is None:
        return resolved_facts(source, revision, None)
    if document.get("kind") == KIND:
        raise InvalidInput(field, source, f"This is a {KIND}: name the model itself.")
    return resolved_facts(name_of(config_file(source)), revision, document)


def checkpoint_facts(folder: Path) -> ModelFacts:
    """Return the facts of a downloaded checkpoint: its configuration, and the tensors that its files really contain."""
    config, tensors = read_local_checkpoint(folder)
    name = name_of(folder / "config.json")
    facts = read_model_facts(name, config, revision=None, source=FactsSource.INLINE, tensors=tensors)
    return replace(facts, files=names_in(folder))
