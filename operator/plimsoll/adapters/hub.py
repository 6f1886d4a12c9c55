"""Model facts from a Hugging Face Hub, or a mirror that speaks its protocol."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import httpx2
from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from plimsoll.adapters.hub_tensors import HubFiles, hub_tensors
from plimsoll.domain.errors import InvalidInput, ModelNotFound, SourceUnavailable, UnsupportedModel
from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.domain.units import MIB
from plimsoll.facts.config_json import read_model_facts
from plimsoll.facts.fields import Fields
from plimsoll.facts.model_class import knows_class

_CONFIG = "config.json"
_QUANTIZATION = "hf_quant_config.json"
"""Where NVIDIA ModelOpt's older exports say how the weights are stored."""

_LARGEST_FILE_BYTES = 4 * MIB
_REMEMBERED_MODELS = 1024
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
"""Branches, tags and commits; the library's cache makes a path of it, so nothing that climbs out of a folder."""

_UNREACHABLE = (httpx2.HTTPError, OSError)
"""No connection, no answer, offline mode, a refusing server, or a cache folder that cannot be written."""

_REFUSED_STATUS = (401, 403, 404)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question: which model, at which revision, with whose token."""

    name: str
    revision: str | None
    token: str | None

    @property
    def reader(self) -> str:
        """A name for the token that does not give it away; readers must not see each other's private models."""
        return hashlib.sha256(self.token.encode()).hexdigest()[:16] if self.token else "default"

    def __str__(self) -> str:
        return f"model {self.name} at revision {self.revision or 'main'}"


@dataclass(frozen=True, slots=True)
class _File:
    """A downloaded file; ``is_fresh`` unless the hub did not answer and an earlier download stands in."""

    path: Path
    is_fresh: bool


class HubModels:
    """Reads facts of models from the hub that ``HF_ENDPOINT`` names, and remembers them.

    ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` work as everywhere in the hub's library. Calls block; use a thread.

    Args:
        cache_dir: where downloaded files are kept; one folder for each token, so that no token reads for another.
        timeout_seconds: for the answer to each request.
    """

    def __init__(self, cache_dir: Path, *, timeout_seconds: float = 10) -> None:
        self._cache_dir = cache_dir
        self._timeout_seconds = timeout_seconds
        self._endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
        self._known: dict[tuple[str, str | None, str], ModelFacts] = {}

    def facts(self, name: str, revision: str | None, token: str | None) -> ModelFacts:
        """Read a model's facts.

        Args:
            name: ``owner/name`` on the hub.
            revision: branch, tag or commit; None for the default branch.
            token: a token that may read the model; None for ``HF_TOKEN``, or none at all.

        Raises:
            ModelNotFound: the hub has no such model or revision, or the token may not read it.
            SourceUnavailable: the hub did not answer, and the files were not downloaded earlier.
            InvalidInput: the revision, the token or the configuration cannot be used.
            UnsupportedModel: the configuration has a part without a memory law.
        """
        asked = _Asked(name, revision, token.strip() if token else None)
        _refuse_unusable(asked)
        key = (name, revision, asked.reader)
        if key not in self._known:
            facts = self._read(asked)
            if len(self._known) >= _REMEMBERED_MODELS:
                self._known.clear()
            self._known[key] = facts
        return self._known[key]

    def _read(self, asked: _Asked) -> ModelFacts:
        file = self._file(asked, _CONFIG, only_cached=False)
        if file is None:
            raise ModelNotFound(f"{asked} holds no {_CONFIG}. Name a model in the Transformers format.")
        config = _json(file.path, _CONFIG)
        if config.get("quantization_config") is None:
            sidecar = self._file(asked, _QUANTIZATION, only_cached=not file.is_fresh)
            if sidecar is not None:
                config["quantization_config"] = _sidecar(_json(sidecar.path, _QUANTIZATION))
        count = self._parameters(asked) if file.is_fresh else None
        read = partial(
            read_model_facts, asked.name, config, revision=asked.revision, source=FactsSource.HUB, parameters=count
        )
        return self._with_tensors(asked, read) if file.is_fresh and not _is_known(config) else read()

    def _with_tensors(self, asked: _Asked, read: Callable[..., ModelFacts]) -> ModelFacts:
        """An unknown class with the weights that the checkpoint stores; without them where they cannot be read."""
        files = HubFiles(asked.name, asked.revision, asked.token, self._endpoint, self._timeout_seconds)
        tensors = hub_tensors(files)
        if tensors is None:
            return read()
        try:
            return read(tensors=tensors)
        except (InvalidInput, UnsupportedModel):
            return read()

    def _file(self, asked: _Asked, filename: str, *, only_cached: bool) -> _File | None:
        """A file of the model; None where the model has no such file."""
        cache_dir = self._cache_dir / asked.reader
        if only_cached:
            return _cached(asked, filename, cache_dir)
        try:
            url = hf_hub_url(asked.name, filename, revision=asked.revision, endpoint=self._endpoint)
            metadata = get_hf_file_metadata(
                url, token=asked.token, timeout=self._timeout_seconds, endpoint=self._endpoint
            )
            if (metadata.size or 0) > _LARGEST_FILE_BYTES:
                raise InvalidInput(filename, f"{metadata.size} bytes", "Name a model with a configuration below 4 MiB.")
            path = hf_hub_download(
                asked.name,
                filename,
                revision=asked.revision,
                cache_dir=cache_dir,
                token=asked.token,
                endpoint=self._endpoint,
                etag_timeout=self._timeout_seconds,
            )
            return _File(Path(path), is_fresh=True)
        except (HFValidationError, RepositoryNotFoundError, RevisionNotFoundError) as error:
            _explain(asked, error)
        except _UNREACHABLE as error:
            if _is_missing_file(error):
                return None
            if isinstance(error, HfHubHTTPError) and error.response.status_code in _REFUSED_STATUS:
                _explain(asked, error)
            earlier = _cached(asked, filename, cache_dir)
            if earlier is None:
                raise SourceUnavailable(f"{asked} could not be read from the hub ({type(error).__name__})") from error
            return earlier

    def _parameters(self, asked: _Asked) -> int | None:
        """The exact count from the hub's metadata; None where it has none, which is no reason to fail."""
        try:
            info = HfApi(endpoint=self._endpoint).model_info(
                asked.name,
                revision=asked.revision,
                expand=["safetensors"],
                token=asked.token,
                timeout=self._timeout_seconds,
            )
        except (*_UNREACHABLE, KeyError, TypeError, ValueError, AttributeError):
            return None
        total = info.safetensors.total if info.safetensors is not None else None
        return total if isinstance(total, int) and total > 0 else None


def _is_known(config: dict[str, object]) -> bool:
    """Whether the class needs no tensors; a file that cannot be read does not either, and is refused later."""
    try:
        return knows_class(Fields(config))
    except InvalidInput:
        return True


def _refuse_unusable(asked: _Asked) -> None:
    if asked.revision is not None and (not _REVISION.fullmatch(asked.revision) or ".." in asked.revision):
        raise InvalidInput("revision", asked.revision, "Name a branch, a tag or a commit.")
    if asked.token is not None and not (asked.token.isascii() and asked.token.isprintable()):
        raise InvalidInput("token", "(hidden)", "Store the token alone, without line breaks or quotes.")


def _is_missing_file(error: Exception) -> bool:
    return isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError)


def _cached(asked: _Asked, filename: str, cache_dir: Path) -> _File | None:
    path = try_to_load_from_cache(asked.name, filename, cache_dir=cache_dir, revision=asked.revision)
    return _File(Path(path), is_fresh=False) if isinstance(path, str) else None


def _explain(asked: _Asked, error: Exception) -> NoReturn:
    """Turn the hub's refusal into a sentence with a way out."""
    match error:
        case HFValidationError():
            reason = "is no name of a model. Write it as on the hub, owner/name."
        case GatedRepoError():
            reason = "is gated. Accept its licence on the hub and give a token of that account."
        case RevisionNotFoundError():
            reason = "does not exist: the model has no such revision. Name a branch, a tag or a commit of it."
        case _:
            reason = "was not found. Check the name; if the model is private or gated, give a token that may read it."
    raise ModelNotFound(f"{asked} {reason}") from error


def _json(path: Path, filename: str) -> dict[str, object]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(filename, "(unreadable)", "Publish it as one JSON object.") from error
    if not isinstance(document, dict):
        raise InvalidInput(filename, f"<{type(document).__name__}>", "Publish it as one JSON object.")
    return document


def _sidecar(document: dict[str, object]) -> dict[str, object]:
    """ModelOpt's file in the shape of ``quantization_config``."""
    inner = document.get("quantization")
    if not isinstance(inner, dict):
        raise InvalidInput(_QUANTIZATION, "(no quantization)", "Publish the file as ModelOpt wrote it.")
    return {"quant_method": "modelopt", **inner}
