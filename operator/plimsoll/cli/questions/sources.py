"""The source of ``plimsoll estimate``: a model's name, a checkpoint's folder, a ``config.json`` or a manifest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from plimsoll.cli.questions.other_sources import GGUF, other_source
from plimsoll.cli.reading.files import read_text
from plimsoll.cli.reading.yaml_documents import Broken, Document, read_documents
from plimsoll.domain.errors import InvalidInput

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
