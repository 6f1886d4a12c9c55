"""The source of ``plimsoll estimate``: a model's name, a checkpoint's folder, a ``config.json`` or a manifest.

Files and folders that are part of a model, or a model of another program: what they are, and what to ask instead.

The facts of a model that is named by its name on the Hub, by a folder of a checkpoint, or by a configuration.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from plimsoll.adapters.hub.checkpoints import names_in, read_local_checkpoint
from plimsoll.cli.reading.files import read_text
from plimsoll.cli.reading.model_sources import resolved_facts
from plimsoll.cli.reading.yaml_documents import Broken, Document, read_documents
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import KIND
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.facts.models.config_json import read_model_facts

_MAGIC = b"GGUF"
"""The first bytes of a GGUF file. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md"""

GGUF = (
    "GGUF files are models of llama.cpp, and no memory law covers them here. Name the checkpoint from which the file "
    "was made (owner/name on the Hub), with --precision for other numbers."
)

_ADAPTER, _INDEX, _CONFIG = "adapter_config.json", "model.safetensors.index.json", "config.json"
_LARGEST_BYTES = 1 << 20
"""Bytes of an adapter's configuration that are read; the usual ones have about a thousand."""

_WITH_CONFIG = (
    "Add the config.json of the same repository: name the folder that holds both, the config.json itself, or the model "
    "(owner/name)."
)


def other_source(path: Path) -> str | None:
    """Return what a file or a folder is and what to do, if it is no whole checkpoint; None if it may be one."""
    try:
        return _of_folder(path) if path.is_dir() else _of_file(path) if path.is_file() else None
    except (OSError, ValueError):
        return None


def _of_folder(folder: Path) -> str | None:
    if (folder / _CONFIG).is_file():
        return None
    if (folder / _ADAPTER).is_file():
        return _adapter(folder / _ADAPTER)
    if any(folder.glob("*.gguf")):
        return GGUF
    if (folder / "params.json").is_file():
        return f"The folder holds a params.json in Mistral's own format, and no config.json. {_WITH_CONFIG}"
    if (folder / _INDEX).is_file():
        return f"The folder holds the index of a checkpoint's files, and no config.json. {_WITH_CONFIG}"
    if any(folder.glob("*.safetensors")):
        return f"The folder holds weights, and no config.json. {_WITH_CONFIG}"
    return None


def _of_file(file: Path) -> str | None:
    with file.open("rb") as stream:
        is_gguf = stream.read(len(_MAGIC)) == _MAGIC
    if is_gguf or file.suffix == ".gguf":
        return GGUF
    if file.name == _ADAPTER:
        return _adapter(file)
    if file.name == _INDEX:
        return f"It is the index of a checkpoint's files, which says nothing about its layers. {_WITH_CONFIG}"
    if file.suffix in (".safetensors", ".bin", ".pt", ".pth"):
        return f"It is one file of weights, which says nothing about the model's layers. {_WITH_CONFIG}"
    return None


def _adapter(file: Path) -> str:
    """Return the question about the model of an adapter, with a slot of its rank."""
    config = _object(file)
    base, rank = config.get("base_model_name_or_path"), config.get("r")
    name = base if isinstance(base, str) and base else "BASE"
    slot = rank if isinstance(rank, int) and not isinstance(rank, bool) and rank > 0 else "RANK"
    return (
        f"It is an adapter (PEFT) for {name}, and not a model. Ask about its model with a slot for the adapter: "
        f"plimsoll estimate {name} --lora 1 {slot}"
    )


def _object(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        content = stream.read(_LARGEST_BYTES)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_GGUF = re.compile(r"[-_.]gguf\b", re.IGNORECASE)
"""The end of names of repositories that hold GGUF files; a quantization may follow behind a colon."""

_SUFFIXES = (".json", ".yaml", ".yml")
_WRITE = "Write one config.json, or one InferenceDeployment."
_NAME_ONE = (
    "Name a model (owner/name), the folder of a downloaded checkpoint, a config.json or a manifest (.yaml, .json)."
)


def name_of(path: Path) -> str:
    """A name for a configuration: the file's name, or the folder's if the file is called ``config.json``."""
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-") or "model"


def _check_name(source: str, field: str) -> None:
    if _GGUF.search(source):
        raise InvalidInput(field, source, GGUF)
    if not _NAME.fullmatch(source):
        raise InvalidInput(field, source, "There is no such file or folder. " + _NAME_ONE)


def config_file(source: str) -> Path:
    """The file to read; for a folder its ``config.json``."""
    path = Path(source)
    return path / "config.json" if path.is_dir() else path


def _check_path(source: str, field: str) -> None:
    """Refuse a source that names no file, and say which ones would. Raises :class:`InvalidInput`."""
    if not source.strip():
        raise InvalidInput(field, source, _NAME_ONE)
    path = Path(source)
    fix = other_source(path)
    if fix is not None:
        raise InvalidInput(field, source, fix)
    if path.is_dir() and not (path / "config.json").is_file():
        raise InvalidInput(field, source, "The folder holds no config.json. " + _NAME_ONE)
    if path.suffix in _SUFFIXES and not path.exists():
        raise InvalidInput(field, source, "There is no such file. " + _NAME_ONE)


def document_of(source: str, field: str = "MODEL") -> dict[str, Any] | None:
    """Read a ``config.json`` or a manifest; None if the source is a model's name.

    Raises:
        InvalidInput: ``field``, as the user named the source, cannot be used.
    """
    try:
        _check_path(source, field)
        path = config_file(source)
        if not path.is_file() and path.suffix not in _SUFFIXES:
            _check_name(source, field)
            return None
        documents = list(read_documents(read_text(str(path)), is_json=path.suffix == ".json"))
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InvalidInput(field, source, f"It cannot be read ({why}). {_NAME_ONE}") from error
    broken = next((each for each in documents if isinstance(each, Broken)), None)
    if broken is not None:
        raise InvalidInput(field, source, f"It cannot be parsed{broken.at}: {broken.problem}. {_WRITE}")
    values = [each.value for each in documents if isinstance(each, Document)]
    if len(values) != 1 or not isinstance(values[0], dict):
        raise InvalidInput(field, source, _WRITE)
    return dict(values[0])


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
