"""Model facts from a Hugging Face Hub, or a mirror that speaks its protocol."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote

import httpx2
from huggingface_hub import constants, hf_hub_url
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._headers import get_token_to_send

from plimsoll.adapters.hub.cache import HubCache
from plimsoll.adapters.hub.tensors import hub_tensors
from plimsoll.adapters.hub.web_session import ResponseTooLarge, WebResponse, WebSession, WebVisit
from plimsoll.domain.errors import InvalidInput, ModelNotFound, RateLimited, SourceUnavailable, UnsupportedModel
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.units import MIB
from plimsoll.facts.models.config_json import read_model_facts
from plimsoll.facts.models.fields import Fields
from plimsoll.facts.models.model_class import knows_class

_CONFIG = "config.json"
_QUANTIZATION = "hf_quant_config.json"
"""The file in which NVIDIA ModelOpt's older exports describe how the weights are stored."""

_LARGEST_FILE_BYTES = 4 * MIB
_LARGEST_METADATA_BYTES = MIB
_MOST_VALUES = 200_000
"""Most values in a file, counted by commas and brackets: an empty list takes three bytes in the file and seventy in
memory."""

_TELLING = re.compile(
    r"(?!model)[\w.-]{1,100}\.json|consolidated[\w.-]{0,80}\.safetensors|[\w.-]{1,80}\.model(\.v\w{1,8})?"
)
_MOST_TELLING = 64
"""Names of files that an engine may look for next to the weights, and the most of a repository that are kept."""

_LOOK_UP_SECONDS = 30.0
"""Time limit for all answers of one look-up together, in addition to the limit for each answer."""

_REMEMBERED_MODELS = 1024
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
"""Branches, tags and commits. The revision becomes part of an address, so it must not lead out of its folder."""

_REFUSED = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN)

_HOW_TO_GIVE = "set HF_TOKEN, or name a Secret in spec.model.tokenSecretRef."
_MORE_FOR_KNOWN = "Wait a few minutes; it allows more to readers with a token: set HF_TOKEN"


class AccessRefused(ModelNotFound):
    """The hub does not show the model, or whether it exists, to this token."""


@dataclass(frozen=True, slots=True)
class _Asked:
    name: str
    revision: str | None
    token: str | None

    @property
    def reader(self) -> str:
        """A hash of the token, which does not reveal it. Readers must not see each other's private models."""
        return hashlib.sha256(self.token.encode()).hexdigest() if self.token else "default"

    def __str__(self) -> str:
        return f"model {self.name} at revision {self.revision or 'main'}"


@dataclass(frozen=True, slots=True)
class _File:
    """A file's content. ``is_fresh`` is false if the hub did not answer and the content is from an earlier answer."""

    document: dict[str, object]
    is_fresh: bool


@dataclass(frozen=True, slots=True)
class _Metadata:
    """The exact count of parameters, and the names of the files; None if the hub does not say."""

    total: int | None = None
    files: frozenset[str] | None = None


class HubModels:
    """Reads facts of models from the hub that ``HF_ENDPOINT`` names, and remembers them.

    ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` work as everywhere in the hub's library. Calls block; use a thread.

    Args:
        cache_dir: folder that keeps answers, for use while the hub does not answer.
        timeout_seconds: time limit for each whole answer.
    """

    def __init__(self, cache_dir: Path, *, timeout_seconds: float = 10) -> None:
        self._cache = HubCache(cache_dir)
        self._endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or None
        self._session = WebSession(
            self._endpoint or constants.ENDPOINT,
            setting="HF_ENDPOINT",
            kind="hub",
            timeout_seconds=timeout_seconds,
            refusal=lambda: "HF_HUB_OFFLINE is set" if constants.is_offline_mode() else "",
        )
        self._known: dict[tuple[str, str | None, str], ModelFacts] = {}

    def facts(self, name: str, revision: str | None, token: str | None, *, asker: str = "") -> ModelFacts:
        """Read a model's facts.

        Args:
            name: ``owner/name`` on the hub.
            revision: branch, tag or commit; None for the default branch.
            token: a token that may read the model; None for ``HF_TOKEN``, or for no token at all.
            asker: the namespace that asks. If the hub does not answer one asker, requests of the others are still sent.

        Raises:
            ModelNotFound: the hub has no such model or revision.
            AccessRefused: the token may not read it, or there is no such model.
            SourceUnavailable: the hub did not answer, and did not earlier.
            InvalidInput: the revision, the token or the configuration cannot be used.
            UnsupportedModel: the configuration has a part without a memory law.
        """
        asked = _Asked(name, revision, token.strip() if token else None)
        _refuse_unusable(asked)
        key = (name, revision, asked.reader)
        facts = self._known.get(key)
        if facts is None:
            with self._session.visit(get_token_to_send(asked.token), asker=asker, seconds=_LOOK_UP_SECONDS) as visit:
                facts = self._read(asked, visit)
            if len(self._known) >= _REMEMBERED_MODELS:
                self._known.clear()
            self._known[key] = facts
        return facts

    def close(self) -> None:
        """Cancel all running look-ups."""
        self._session.close()

    def _read(self, asked: _Asked, visit: WebVisit) -> ModelFacts:
        file = self._file(asked, visit, _CONFIG)
        if file is None:
            raise ModelNotFound(f"{asked} holds no {_CONFIG}. Name a model in the Transformers format.")
        config = file.document
        if config.get("quantization_config") is None:
            sidecar = self._file(asked, visit if file.is_fresh else None, _QUANTIZATION)
            if sidecar is not None:
                config["quantization_config"] = _sidecar(sidecar.document)
        known = self._metadata(asked, visit) if file.is_fresh else _Metadata()
        read = partial(
            read_model_facts,
            asked.name,
            config,
            revision=asked.revision,
            source=FactsSource.HUB,
            parameters=known.total,
        )
        facts = self._with_tensors(asked, visit, read) if file.is_fresh and not _is_known(config) else read()
        return replace(facts, files=known.files)

    def _with_tensors(self, asked: _Asked, visit: WebVisit, read: Callable[..., ModelFacts]) -> ModelFacts:
        """Read a model of an unknown class with the checkpoint's tensors; without them if they cannot be read."""
        tensors = hub_tensors(visit, partial(self._address, asked))
        if tensors is None:
            return read()
        try:
            return read(tensors=tensors)
        except (InvalidInput, UnsupportedModel):
            return read()

    def _file(self, asked: _Asked, visit: WebVisit | None, filename: str) -> _File | None:
        """Return a file of the model; None if the model has no such file. Without a visit, read only the cache."""
        question = (self._session.endpoint, asked.name, asked.revision or "", filename, asked.reader)
        if visit is None:
            return self._earlier(question, filename)
        try:
            answer = visit.get(self._address(asked, filename), most=_LARGEST_FILE_BYTES)
            _refuse_failures(asked, answer, filename)
        except ResponseTooLarge as error:
            raise InvalidInput(filename, str(error), "Name a model with a configuration below 4 MiB.") from error
        except SourceUnavailable as error:
            earlier = self._earlier(question, filename)
            if earlier is None:
                raise _unread(asked, error) from error
            return earlier
        if not answer.is_success:
            self._cache.drop(question)
            return None
        document = _json(answer.body, filename)
        self._cache.put(question, answer.body)
        return _File(document, is_fresh=True)

    def _earlier(self, question: tuple[str, ...], filename: str) -> _File | None:
        content = self._cache.get(question, _LARGEST_FILE_BYTES)
        try:
            return None if content is None else _File(_json(content, filename), is_fresh=False)
        except InvalidInput:  # the disk failed, or another program wrote the file
            return None

    def _address(self, asked: _Asked, filename: str) -> str:
        try:
            return hf_hub_url(asked.name, filename, revision=asked.revision, endpoint=self._endpoint)
        except HFValidationError as error:
            raise ModelNotFound(f"{asked} is no name of a model. Write it as on the hub, owner/name.") from error

    def _metadata(self, asked: _Asked, visit: WebVisit) -> _Metadata:
        """Return the metadata of a model on the hub, without its files. Without an answer, that is no error."""
        at = f"/revision/{quote(asked.revision, safe='')}" if asked.revision else ""
        url = f"{self._session.endpoint}/api/models/{asked.name}{at}?expand=safetensors&expand=siblings"
        try:
            answer = visit.get(url, most=_LARGEST_METADATA_BYTES)
            document = json.loads(answer.body)
        except (SourceUnavailable, ValueError, RecursionError):
            return _Metadata()
        return _Metadata(_total(document), _names(document)) if isinstance(document, dict) else _Metadata()


def _total(document: dict[str, object]) -> int | None:
    weights = document.get("safetensors")
    total = weights.get("total") if isinstance(weights, dict) else None
    return total if isinstance(total, int) and total > 0 else None


def _names(document: dict[str, object]) -> frozenset[str] | None:
    """Return the telling names at the top of the repository; None if the hub lists no files, or too many such."""
    listed = document.get("siblings")
    if not isinstance(listed, list):
        return None
    names = (each.get("rfilename") for each in listed if isinstance(each, dict))
    found = frozenset(each for each in names if isinstance(each, str) and _TELLING.fullmatch(each))
    return found if 0 < len(found) <= _MOST_TELLING else None


def _is_known(config: dict[str, object]) -> bool:
    """Whether the class is known, so no tensors are needed. True for an unreadable file, which is refused later."""
    try:
        return knows_class(Fields(config))
    except InvalidInput:
        return True


def _refuse_unusable(asked: _Asked) -> None:
    if asked.revision is not None and (not _REVISION.fullmatch(asked.revision) or ".." in asked.revision):
        raise InvalidInput("revision", asked.revision, "Name a branch, a tag or a commit.")
    if asked.token is not None and not (asked.token.isascii() and asked.token.isprintable()):
        raise InvalidInput("token", "(hidden)", "Store the token alone, without line breaks or quotes.")


def _refuse_failures(asked: _Asked, answer: WebResponse, filename: str) -> None:
    """Raise an error with a remedy for the hub's refusal. A missing file is no refusal."""
    if answer.is_success or _is_missing_file(answer, filename):
        return
    if answer.error_code == "GatedRepo":
        raise AccessRefused(
            f"{asked} is gated. Accept its licence on the hub and give a token of that account: {_HOW_TO_GIVE}"
        )
    if answer.error_code == "RevisionNotFound":
        raise ModelNotFound(
            f"{asked} does not exist: the model has no such revision. Name a branch, a tag or a commit of it."
        )
    if answer.status in _REFUSED or answer.status == httpx2.codes.NOT_FOUND:
        kind = AccessRefused if answer.status in _REFUSED else ModelNotFound
        raise kind(
            f"{asked} was not found. Check the name; if the model is private or gated, give a token that may read it: "
            f"{_HOW_TO_GIVE}"
        )
    if answer.status == httpx2.codes.TOO_MANY_REQUESTS:
        raise RateLimited(f"the hub limits the rate of requests (HTTP 429). {_MORE_FOR_KNOWN}", answer.pause_seconds)
    raise SourceUnavailable(f"the hub answered HTTP {answer.status}")


def _is_missing_file(answer: WebResponse, filename: str) -> bool:
    """Whether the answer means that this file is missing.

    A plain mirror sends no error code. If the model's configuration exists, 404 can only mean this file.
    """
    known_model = filename != _CONFIG and not answer.error_code
    return answer.status == httpx2.codes.NOT_FOUND and (known_model or answer.error_code == "EntryNotFound")


def _unread(asked: _Asked, error: SourceUnavailable) -> SourceUnavailable:
    text = f"{asked} could not be read from the hub: {error}"
    return RateLimited(text, error.pause_seconds) if isinstance(error, RateLimited) else SourceUnavailable(text)


def _json(content: bytes, filename: str) -> dict[str, object]:
    if sum(map(content.count, (b",", b"{", b"["))) > _MOST_VALUES:
        raise InvalidInput(filename, f"more than {_MOST_VALUES} values", "Publish a smaller file.")
    try:
        document = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidInput(filename, "(unreadable)", "Publish it as one JSON object.") from error
    if not isinstance(document, dict):
        raise InvalidInput(filename, f"<{type(document).__name__}>", "Publish it as one JSON object.")
    return document


def _sidecar(document: dict[str, object]) -> dict[str, object]:
    """Return the content of ModelOpt's file as a ``quantization_config``."""
    inner = document.get("quantization")
    if not isinstance(inner, dict):
        raise InvalidInput(_QUANTIZATION, "(no quantization)", "Publish the file as ModelOpt wrote it.")
    return {"quant_method": "modelopt", **inner}
