"""A written command as a question for the memory law: does it start on a GPU, and which KV cache does it get?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path

from plimsoll.adapters.catalog import load_gpu_types
from plimsoll.cli.questions.asked import EstimateQuestion, TypedOptions
from plimsoll.cli.questions.engine_names import OPTION, check_same, named_engine, release_of
from plimsoll.cli.questions.manifest_options import mean_lengths, shared_prefix
from plimsoll.cli.starts.started import found_draft, found_model, known_release, served_split, started_request
from plimsoll.cli.starts.written_commands import Written, reader_of
from plimsoll.domain.cluster.gpus import GpuType
from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.requests.serving import Request, ServingShape
from plimsoll.engines.given import unconfirmed_files
from plimsoll.engines.registry import engine_of
from plimsoll.engines.starts import StartCommand, as_written, unresolved_in
from plimsoll.facts.cluster.gpu_labels import NVIDIA_RESOURCE, cloud_labels, main_labels, match_gpu

_ALLOWED = (
    *("gpus", "engine", "concurrency", "prompt", "output", "shared_prefix", "shared_percent"),
    *("against_price", "requests_per_day", "busy_hours", "startup"),
)
"""Options that say something that no command says."""

_PLACES = ("/", ".", "~", "s3://", "gs://", "az://", "hf://", "oci://", "pvc://")
"""Beginnings of models that are a place, and not a name on the Hub."""


def start_question(written: Written, asked: TypedOptions, model: str | None) -> EstimateQuestion:
    """Return the question of a command.

    Args:
        written: the command with what is around it.
        asked: the options of the command line.
        model: the model in place of the one that the command names; None for that one.

    Raises:
        PlimsollError: the command cannot be read, or it cannot start on any GPU.
    """
    _refuse_doubles(asked)
    release, release_notes = _release(written, asked)
    command = reader_of(written.engine).read(written.arguments, written.environment, written.where, release)
    facts = _model(written, command, model)
    engine = engine_of(command.engine)
    share = command.options.utilization or engine.default_utilization(release)
    draft = found_draft(command.options, f"{written.where}: --speculative-config")
    request = started_request(
        command.options,
        release,
        facts,
        draft,
        engine=engine.name,
        share=share,
        requests=asked.concurrency or 1,
    )
    request = replace(request, shape=_expected(request.shape, asked))
    files = unconfirmed_files(engine, command, facts)
    request = replace(request, engine=replace(request.engine, unconfirmed=files, unchecked=command.unchecked))
    _check_release(written, request.model, engine.release_refusal(request.model, request.precision, release))
    _check_release(written, request.model, engine.code_refusal(request.model, request.engine))
    _check_model(written, command, request.model, release)
    _check_context(written, command, facts)
    _check_step(written, request, served_split(command.split, facts))
    _check_gpus(written, command)
    gpus, gpu_notes = _gpus(written, asked)
    notes = (
        *((written.taken,) if written.taken else ()),
        *release_notes,
        *gpu_notes,
        *command.notes,
        *_notes(written, command, facts),
    )
    document = {
        "where": written.where,
        "image": written.image or None,
        "model": facts.name,
        "withoutInfluence": list(command.harmless),
        "withoutLaw": list(request.engine.unfollowed),
    }
    return EstimateQuestion(request, notes, share, document, gpus, served_split(command.split, facts))


def _expected(shape: ServingShape, asked: TypedOptions) -> ServingShape:
    """Return the load with the mean lengths, which its speed and cost follow; the cache stays the command's own."""
    means, prefix = mean_lengths(asked), shared_prefix(asked)
    if means is None and prefix is None:
        return shape
    if prefix is not None and not 0 < prefix[0] < (asked.prompt or 0):
        fix = "Write 1 or more and less than --prompt, and name that and --output-tokens."
        raise InvalidInput("--shared-prefix", prefix[0], fix)
    tokens, percent = prefix or (0, 100)
    found = replace(
        shape,
        expected_prompt_tokens=asked.prompt,
        expected_output_tokens=asked.output,
        guaranteed=True,
        shared_tokens=tokens,
        shared_percent=percent,
    )
    if (found.mean_tokens or 0) > shape.context_tokens:
        fix = f"With --output-tokens it exceeds the context of the command, {shape.context_tokens:,} tokens: lower one."
        raise InvalidInput("--prompt", asked.prompt, fix)
    return found


def _refuse_doubles(asked: TypedOptions) -> None:
    """Refuse options for which the command has flags of its own."""
    usual = TypedOptions()
    for each in fields(TypedOptions):
        value = getattr(asked, each.name)
        if each.name not in _ALLOWED and value != getattr(usual, each.name):
            option = f"--{_OPTIONS.get(each.name, each.name.replace('_', '-'))}"
            shown = value.tensor_parallel if isinstance(value, Split) else value
            raise InvalidInput(option, shown, "The command says it itself: change the command, or leave this out.")


_OPTIONS = {"max_sequences": "max-num-seqs", "output": "output-tokens", "split": "tp"}
"""Options whose names differ from their fields."""


def _release(written: Written, asked: TypedOptions) -> tuple[EngineVersion, tuple[str, ...]]:
    """Return the release: the user's, that of the image, or the newest known one."""
    engine, named = engine_of(written.engine), named_engine(asked.engine)
    check_same(engine, named, asked.engine)
    if named.release is not None:
        return known_release(engine, named.release, OPTION), ()
    found = reader_of(written.engine).release_of(written.image)
    if found is None:
        what = f"The tag of {written.image} names no release" if written.image else "The command names no release"
        default = release_of(engine, named)
        return known_release(engine, default, OPTION), (
            f"{what}: {engine.title} {default} is assumed; --engine names another.",
        )
    release = known_release(engine, str(found.version), f"{written.where}.image")
    if found.is_plain:
        return release, ()
    return release, (f"{written.image} counts as release {release}; --engine names another.",)


def _model(written: Written, command: StartCommand, model: str | None) -> ModelFacts:
    if model is not None:
        return found_model(model, "MODEL")
    source, place = command.model, f"{written.where}: the model"
    if source is None:
        raise InvalidInput(
            place, as_written(" ".join(written.arguments)), f"Name it, e.g. `{reader_of(written.engine).example}`."
        )
    expression = unresolved_in(source)
    if expression is not None:
        fix = f"The value of {expression} is not known here. {_name_it(written)}"
        raise InvalidInput(place, as_written(source), fix)
    if source.startswith(_PLACES) and not Path(source).exists():
        raise InvalidInput(place, source, f"It is a place that is not on this machine. {_name_it(written)}")
    return found_model(source, place, command.revision)


def _name_it(written: Written) -> str:
    if written.taken:
        return (
            "Name the model as MODEL in front of -f: its name on the Hub, a folder of its checkpoint, or a config.json."
        )
    return "Write the model's name on the Hub, a folder of its checkpoint, or a config.json in its place."


def _check_release(written: Written, model: ModelFacts, refusal: str | None) -> None:
    """Refuse a release that cannot load the model. An image of somebody's own may have more than its release."""
    own = bool(written.image) and reader_of(written.engine).release_of(written.image) is None
    if refusal is not None and not own:
        raise InvalidInput(f"{written.where}: the model", model.name, refusal)


def _check_model(written: Written, command: StartCommand, model: ModelFacts, release: EngineVersion) -> None:
    found = reader_of(command.engine).misfit(model, command, release)
    if found is not None:
        raise InvalidInput(f"{written.where}: {found.flag}", found.value, found.fix)


def _check_context(written: Written, command: StartCommand, model: ModelFacts) -> None:
    given = command.options.max_model_len
    if given is None:
        return
    refusal = engine_of(command.engine).context_refusal(model, given, written.arguments, written.environment)
    if refusal is not None:
        title, most = engine_of(command.engine).title, model.max_context_tokens
        fix = f"{model.name} has {most:,} positions, and {title} refuses to start with more: write at most {most}."
        raise InvalidInput(f"{written.where}: --max-model-len", given, fix)


def _check_step(written: Written, request: Request, split: Split) -> None:
    """Refuse a step below the engine's minimum, to which the operator raises its own steps."""
    given = request.engine.limits.step_tokens
    if not given:
        return
    as_operator = replace(request, engine=replace(request.engine, own_defaults=False))
    least = engine_of(request.engine.name).settings(as_operator, load_gpu_types()[0], split).limits.step_tokens
    if given < least:
        fix = f"{request.model.name} needs a step of {least:,} tokens: write at least {least}, or leave it out."
        raise InvalidInput(f"{written.where}: --max-num-batched-tokens", given, fix)


def _check_gpus(written: Written, command: StartCommand) -> None:
    """Refuse a container with fewer GPUs than its ranks."""
    needed = command.split.gpus
    if written.gpus is None or written.gpus >= needed or written.spread or command.spread:
        return
    raise InvalidInput(
        written.resource,
        written.gpus,
        f"The command starts {_ranks(command.split)}: write {needed}, or lower a degree.",
    )


def _ranks(split: Split) -> str:
    degrees = (("TP", split.tensor_parallel), ("PP", split.pipeline_parallel), ("DP", split.data_parallel))
    product = " x ".join(f"{name} {degree}" for name, degree in degrees if degree > 1) or "TP 1"
    return f"{product} = {split.gpus} rank{'s' if split.gpus > 1 else ''}, each on a GPU of its own"


def _gpus(written: Written, asked: TypedOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the GPU types that the user names, or that the nodes of the container have; empty for all."""
    if asked.gpus:
        return asked.gpus, ()
    types = load_gpu_types()
    found = dict.fromkeys(gpu.name for labels in written.labels if (gpu := _type_of(labels, types)) is not None)
    if not found:
        return (), ()
    return tuple(found), (f"GPU type {', '.join(found)}, by the labels of its nodes; --gpu names another.",)


def _type_of(labels: Mapping[str, str], types: tuple[GpuType, ...]) -> GpuType | None:
    named = main_labels(labels) or cloud_labels(labels, NVIDIA_RESOURCE)
    if named is None:
        return None
    found = (match_gpu(each, named.memory_mib, named.compute_capability, types) for each in named.products)
    return next((gpu for gpu in found if gpu is not None), None)


def _notes(written: Written, command: StartCommand, model: ModelFacts) -> Iterator[str]:
    split, gpus = command.split, command.split.gpus
    if split.data_parallel > 1 and model.experts is None:
        each = served_split(split, model).gpus
        engines = f"{split.data_parallel} engines of {each} GPU{'s' if each > 1 else ''} each"
        yield f"{engines}: without experts they share nothing, so the figures are those of one of them."
    if written.gpus is not None and written.gpus > gpus and not (written.spread or command.spread):
        yield f"{written.resource} is {written.gpus}, and the command starts {_ranks(split)}: the others stay idle."
    if command.fits_context:
        yield (
            "The engine shortens the context to what fits, so it may start where this says no. The figures are for the "
            "longest context that the model declares."
        )
    if command.harmless:
        yield f"Without influence on GPU memory: {', '.join(command.harmless)}."
