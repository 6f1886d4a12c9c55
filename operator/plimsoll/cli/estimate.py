"""``plimsoll estimate``: what one model needs, term by term, on any GPU, without a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.adapters.local_checkpoint import read_local_checkpoint
from plimsoll.api.convert import to_request
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.cli.context import draft_of, model_of
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.gpus import GpuType
from plimsoll.domain.model import FactsSource, ModelFacts
from plimsoll.domain.names import API_VERSION, KIND
from plimsoll.domain.outcomes import Rejection, Split
from plimsoll.domain.serving import Request
from plimsoll.facts.config_json import read_model_facts
from plimsoll.placement.candidates import splits_for
from plimsoll.placement.sizing import Sized, best_on, size_on

DEFAULT_CONTEXT = 8192
"""Tokens of context where the command names none and the model declares as many."""

DEFAULT_CONCURRENCY = 16

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_SUFFIXES = (".json", ".yaml", ".yml")
_WRITE = "Write one config.json, or one InferenceDeployment."


@dataclass(frozen=True, slots=True)
class Asked:
    """The command's options as typed; None where left out."""

    context: int | None = None
    concurrency: int | None = None
    precision: str | None = None
    kv_precision: str | None = None
    engine: str | None = None
    utilization: int | None = None
    batched_tokens: int | None = None
    prompt: int | None = None
    output: int | None = None
    eager: bool = False
    cpu_offload: str | None = None
    lora: tuple[int, int] | None = None
    speculate: tuple[str, int] | None = None
    draft: str | None = None


def request_for(source: str, asked: Asked) -> Request:
    """The request that a model's name, a checkpoint's folder, a ``config.json`` or a manifest stands for.

    Raises:
        InvalidInput: the file or an option cannot be used.
        ModelNotFound: no source knows the model.
        UnsupportedModel: the model has a part without a memory law.
    """
    manifest = _manifest(source, asked)
    resource = parse_inference_deployment(manifest)
    model = _checkpoint(Path(source)) if Path(source).is_dir() else model_of(resource)
    if _is_default(source, asked) and resource.spec.context_length > model.max_context_tokens:
        manifest["spec"]["contextLength"] = model.max_context_tokens
        resource = parse_inference_deployment(manifest)
    return to_request(resource, model, draft=draft_of(resource))


def answers(request: Request, gpus: Sequence[str], split: Split | None) -> list[Sized | Rejection]:
    """One answer for each GPU type: at the split asked for, else at the best one.

    Raises:
        InvalidInput: a GPU type that is not catalogued.
    """
    forced = request.overrides
    types = _types(gpus or ([forced.gpu_type] if forced.gpu_type else []))
    if split is None and forced.tensor_parallel is not None:
        split = Split(forced.tensor_parallel)
    if split is not None:
        return [size_on(request, gpu, split) for gpu in types]
    splits = splits_for(request)
    return [best_on(request, gpu, splits) for gpu in types]


def _types(names: Sequence[str]) -> Sequence[GpuType]:
    known = {gpu.name: gpu for gpu in load_gpu_types()}
    for name in names:
        if name not in known:
            raise InvalidInput("--gpu", name, "Name a type as `plimsoll gpus` lists it.")
    return [known[name] for name in names] if names else [gpu for gpu in known.values() if not gpu.is_slice]


def _manifest(source: str, asked: Asked) -> dict[str, Any]:
    document = _document(source)
    if document is not None and document.get("kind") == KIND:
        manifest = dict(document)
        spec = manifest.get("spec")
    else:
        manifest = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "estimate"}}
        model = {"name": source} if document is None else {"name": _name_of(_file(source)), "config": document}
        spec = {"model": model, "contextLength": DEFAULT_CONTEXT, "concurrency": DEFAULT_CONCURRENCY}
    metadata = manifest.get("metadata")
    manifest["metadata"] = {"namespace": "default", **metadata} if isinstance(metadata, dict) else metadata
    manifest["spec"] = _with_options(spec, asked) if isinstance(spec, dict) else spec
    return manifest


def _checkpoint(folder: Path) -> ModelFacts:
    """Facts of a downloaded checkpoint: its configuration, and the tensors that its files really hold."""
    config, tensors = read_local_checkpoint(folder)
    name = _name_of(folder / "config.json")
    return read_model_facts(name, config, revision=None, source=FactsSource.INLINE, tensors=tensors)


def _is_default(source: str, asked: Asked) -> bool:
    """Whether nobody named a context."""
    document = _document(source) if asked.context is None else None
    return asked.context is None and (document is None or document.get("kind") != KIND)


def _name_of(path: Path) -> str:
    """A name for a configuration: its file's, or its folder's where the file is called as all are."""
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-") or "model"


def _with_options(spec: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """The spec with what the command line says instead."""
    engine = {
        "version": asked.engine,
        "gpuMemoryUtilizationPercent": asked.utilization,
        "maxBatchedTokens": asked.batched_tokens,
        "enforceEager": asked.eager or None,
        "cpuOffload": asked.cpu_offload,
        "lora": None if asked.lora is None else {"maxAdapters": asked.lora[0], "maxRank": asked.lora[1]},
        "speculation": _speculation(asked),
    }
    expected = {"prompt": asked.prompt, "output": asked.output}
    changes = {
        "contextLength": asked.context,
        "concurrency": asked.concurrency,
        "precision": asked.precision,
        "kvCache": None if asked.kv_precision is None else {"precision": asked.kv_precision},
        "expectedTokens": _both(expected),
    }
    told = {key: value for key, value in changes.items() if value is not None}
    own = {key: value for key, value in engine.items() if value is not None}
    engines = spec.get("engine") or {}
    return {**spec, **told, "engine": {**engines, **own} if isinstance(engines, dict) else engines}


def _both(expected: Mapping[str, int | None]) -> Mapping[str, int | None] | None:
    """The mean lengths, where they were given; one alone says nothing."""
    missing = [name for name, tokens in expected.items() if tokens is None]
    if len(missing) == 1:
        given = {"prompt": "--output-tokens", "output": "--prompt"}
        raise InvalidInput(
            given[missing[0]], max(filter(None, expected.values())), "Name --prompt and --output-tokens."
        )
    return None if missing else expected


def _speculation(asked: Asked) -> dict[str, Any] | None:
    """Speculative decoding as a spec writes it; the draft a name or a ``config.json``."""
    if asked.speculate is None:
        if asked.draft is not None:
            raise InvalidInput("--draft", asked.draft, "Say how it drafts, e.g. --speculate Eagle 3.")
        return None
    method, tokens = asked.speculate
    told: dict[str, Any] = {"method": method, "tokens": tokens}
    return told if asked.draft is None else {**told, "draftModel": _named(asked.draft)}


def _named(source: str) -> dict[str, Any]:
    document = _document(source)
    return {"name": source} if document is None else {"name": _name_of(_file(source)), "config": document}


def _check_name(source: str) -> None:
    if not _NAME.fullmatch(source):
        raise InvalidInput("MODEL", source, "There is no such file or folder, and a model is named owner/name.")


def _file(source: str) -> Path:
    """The file that is meant; of a folder its configuration."""
    path = Path(source)
    return path / "config.json" if path.is_dir() else path


def _document(source: str) -> dict[str, Any] | None:
    """A ``config.json`` or a manifest; None where the source is a model's name."""
    path = _file(source)
    try:
        if not path.is_file() and path.suffix not in _SUFFIXES:
            _check_name(source)
            return None
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput("MODEL", source, f"It cannot be read: {type(error).__name__}.") from error
    except (ValueError, yaml.YAMLError) as error:
        raise InvalidInput("MODEL", source, _WRITE) from error
    if not isinstance(document, dict):
        raise InvalidInput("MODEL", source, _WRITE)
    return document
