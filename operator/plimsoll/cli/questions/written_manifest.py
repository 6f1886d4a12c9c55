"""InferenceDeployments that the command line writes: from the question of ``plimsoll estimate``, or from answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from plimsoll.adapters.catalog import load_gpu_types, load_model_facts
from plimsoll.api.conversion.convert import check_without_model, to_request
from plimsoll.api.conversion.engines import request_on_engines
from plimsoll.api.crd.rules import check_rules
from plimsoll.api.parse import parse_inference_deployment
from plimsoll.cli.questions.asked import EstimateQuestion, TypedOptions
from plimsoll.cli.questions.estimate import manifest_of
from plimsoll.cli.questions.manifest_options import bounded
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.errors import InvalidInput

_LONGEST_NAME = 40
"""The most characters of a name that is made from a model's: it begins the names of pods and Services."""


def object_name(model: str) -> str:
    """Return a name for an object of this model: ``qwen3-8b`` for ``Qwen/Qwen3-8B``."""
    last = model.rstrip("/").rpartition("/")[2].lower()
    name = re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:_LONGEST_NAME].rstrip("-")
    return name if name[:1].isalpha() else f"model-{name}".rstrip("-")


def checked(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object that the API server and the operator would take.

    Raises:
        InvalidInput: a field cannot be used, by the CRD, or by what is known of a catalogued model.
    """
    resource = parse_inference_deployment(body, {gpu.name for gpu in load_gpu_types()})
    check_without_model(resource.spec)
    check_rules(body)
    facts = None if resource.spec.model.config is not None else load_model_facts(resource.spec.model.name)
    if facts is not None and resource.spec.engine.speculation is None:
        request_on_engines(resource, lambda each: to_request(each, facts))
    return body


def asked_manifest(source: str, asked: TypedOptions, question: EstimateQuestion) -> dict[str, Any]:
    """Return the InferenceDeployment that asks for what an estimate was about.

    Raises:
        InvalidInput: no field of a manifest says an option.
    """
    body = manifest_of(source, asked)
    _refuse_split(asked.split)
    degree = None if asked.split is None else asked.split.tensor_parallel
    spec = bounded(body["spec"], asked.gpus, degree)
    spec["contextLength"] = question.request.shape.context_tokens
    kept = {name: value for name, value in spec.items() if value != {}}
    head = body.get("metadata") or {}
    if not Path(source).is_file() or head.get("name") == "estimate":
        head = {"name": object_name(question.request.model.name)}
    manifest = {**body, "metadata": head, "spec": kept}
    checked(manifest)
    return manifest


def _refuse_split(split: Split | None) -> None:
    if split is not None and split != Split(split.tensor_parallel):
        fix = "A manifest can force the tensor-parallel degree alone: leave --pp, --dp and --ep out."
        raise InvalidInput("-o", "manifest", fix)


def manifest_text(body: Mapping[str, Any]) -> str:
    """Return a manifest as text."""
    return str(yaml.safe_dump(_plain(body), sort_keys=False))


def _plain(value: Any) -> Any:
    """Return values as YAML has them: words of an enumeration are text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence):
        return [_plain(each) for each in value]
    return value
