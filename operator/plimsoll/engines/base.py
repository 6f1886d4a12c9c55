"""The questions that an inference engine answers. The rest of the program knows an engine only through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.cluster.host import HostCache, HostEstimate
from plimsoll.domain.decisions.outcomes import EngineSettings, MemoryEstimate, Option, Split
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion, HostUse, Residency, Speculation
from plimsoll.domain.engines.failures import EngineFailure
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.public_words import Numbers
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.requests.workload import WorkloadOptions
from plimsoll.engines.flags import Misuse, OwnedFlag
from plimsoll.engines.metrics import EngineMetrics
from plimsoll.engines.start_lines import LastStart
from plimsoll.engines.starts import ImageRelease, Misfit, StartCommand, StartLog, StartOptions

Variables = Mapping[str, str]
"""Variables of a container with their values."""


class Feature(StrEnum):
    """An option that an engine has from some release on, or not at all.

    Users do not set ``PLANNING_AHEAD`` and ``DATA_PARALLEL``. ``PLANNING_AHEAD``: the engine plans a step while the
    step before it runs. ``DATA_PARALLEL``: one server balances requests over several engines, which share the experts
    of a model. ``HOST_CACHE``: KV cache of finished requests is kept in host memory. ``KV_NVFP4``, ``KV_SCALES`` (INT8,
    and FP8 with a scale for every token and head) ``KV_INT4`` and ``KV_TURBOQUANT`` are formats of the KV cache.
    """

    WEIGHT_STREAMING = "WeightStreaming"
    TEXT_ONLY = "TextOnly"
    MEDIA_LIMITS = "MediaLimits"
    MTP = "Mtp"
    DRAFT_MODEL = "DraftModel"
    POOLING = "Pooling"
    PLANNING_AHEAD = "PlanningAhead"
    DATA_PARALLEL = "DataParallel"
    KV_NVFP4 = "KvNvfp4"
    KV_SCALES = "KvScalesByTokenAndHead"
    KV_INT4 = "KvInt4"
    KV_TURBOQUANT = "KvTurboQuant"
    HOST_CACHE = "HostCache"
    NGRAM = "Ngram"
    EAGLE = "Eagle"


@dataclass(frozen=True, slots=True)
class Probe:
    """A request to the engine's HTTP server. A healthy engine answers it with 200. Times are in seconds."""

    path: str
    period_seconds: int
    failures: int
    timeout_seconds: int = 5


@dataclass(frozen=True, slots=True)
class Launch:
    """The way in which a container runs an engine.

    Attributes:
        arguments: the arguments of ``command``, or of the image's own entry point where ``command`` is empty.
        environment: variables and values; the user's variables have priority.
        user_id: the user that the image prepares (group 0).
        start_seconds: how long a start may take before the kubelet gives up on it.
        drain_seconds: how long running requests may finish after SIGTERM.
        startup, readiness, liveness: the probes, at the port that every engine is given.
        command: replaces the image's entry point.
    """

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    user_id: int
    start_seconds: int
    drain_seconds: int
    startup: Probe
    readiness: Probe
    liveness: Probe
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartLogReader:
    """The reading of an engine's start-up log.

    Attributes:
        last_start: returns an empty keeper for the lines that matter. It takes lines of any content and length.
        read: the start that these lines are of; None if they are of no log of this engine.
        placed: the same start once its GPU and its release are known. Raises InvalidInput where the log is not of that
            GPU or release. The default is the start.
        settings: the settings of the start, from those that the engine would be given; for engines whose share is no
            share of the card. None: the share of the card is all that a log says of them.
    """

    last_start: Callable[[], LastStart]
    read: Callable[[Sequence[str]], StartLog | None]
    placed: Callable[[StartLog, GpuType, EngineVersion], StartLog] = lambda log, *_: log
    settings: Callable[[StartLog, EngineSettings], EngineSettings] | None = None


@dataclass(frozen=True, slots=True)
class StartCommandReader:
    """The reading of a command line that starts an engine's server.

    Attributes:
        arguments: the arguments of the server in the words of a command; None if it starts no server of this engine.
        is_image: whether an image's entry point is the server, so that a container's arguments are its arguments.
        release_of: the release that the tag of an image names; None where it names none.
        read: what these arguments start, with the variables of the process, in a release. The third argument says where
            they stand, for messages. Raises InvalidInput where a value that matters cannot be read.
        example: a command for messages.
        unconfirmed: the flags with which the engine starts only with files of the model that are not known, in words.
        misfit: the first flag with which a release does not start for this model; None without any.
    """

    arguments: Callable[[Sequence[str]], tuple[str, ...] | None]
    is_image: Callable[[str], bool]
    release_of: Callable[[str], ImageRelease | None]
    read: Callable[[Sequence[str], Mapping[str, str], str, EngineVersion], StartCommand]
    example: str
    misfit: Callable[[ModelFacts, StartCommand, EngineVersion], Misfit | None] = lambda *_: None
    unconfirmed: Callable[[ModelFacts, StartCommand], tuple[str, ...]] = lambda *_: ()


class ImageOf(Protocol):
    """The reference of an engine's own image, with its tag."""

    def __call__(self, vendor: Vendor, release: str, gfx: str | None = None, /) -> str:
        """Return the image for a vendor's GPUs and a release. ``gfx`` is the target of AMD's GPUs."""
        ...


def _not_ruled_out(_: Request, __: GpuType, ___: Split) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Engine:
    """One inference engine. All functions are pure: the same arguments give the same answer.

    Attributes:
        name: the name in ``spec.engine.name`` and in learned observations: lower case, stable.
        title: the name in sentences.
        oldest: the oldest release whose memory is known.
        metrics: the names under which it reports its load.
        owned_flags: the flags that the operator sets itself, and that a user may not pass.
        reserved_environment: variables that the engine or the operator uses itself; a user's value would break the pod.
        lora_ranks: the largest ranks of LoRA adapters that it accepts; empty if it gets none.
        since: the first release of each feature; a feature that no release has is left out.
        copies_encoder_since: the first release that can copy the tower of a model class to every rank.
        adapters_refusal: why a model gets no LoRA adapters; None where it does.
        host_use: the host memory that the user's arguments and variables make the engine take. Raises InvalidInput
            where a value cannot be read.
        host: the host memory and CPU of the pod of one replica, term by term. They follow from the model, its precision
            and the engine's options, and never from the load.
        loaded: the part of a model that the engine loads.
        missing_capability: what a GPU lacks for a request, as numbers for a rejection; empty where the engine can run
            there.
        settings: the settings of one replica.
        lean_settings: settings that need less memory and are slower; the same settings where there are none.
        estimate: the VRAM of one rank: a list of terms, each with the lines behind it. Raises ValueError where the
            release is older than any known law, and UnsupportedModel where no law covers the model.
        may_fit: whether the need may be within the budget with any settings. False is certain, and quick to find. The
            default rules nothing out.
        full_length_tokens: converts the KV tokens that an engine reports to those that requests of full length get.
        cache_bytes: the predicted and the real cache bytes of one GPU, from the KV tokens that its engine reports.
        image: the reference of the engine's own image, with its tag, for a vendor's GPUs, a release and a target.
        launch: how a container runs one replica.
        find_failure: the failure that the end of a crashed engine's log names; None if it is not one of its texts.
        most_sequences: the most requests at the same time that the engine's own defaults and its CUDA graphs are made
            for. The default is the declared number: such an engine gets no more.
        release_refusal: why a release cannot load a model in a precision, and what to use; None where it can, or may.
            The default refuses nothing.
        context_refusal: why the engine refuses requests as long as that for a model, and what to write; None where it
            takes them. It sees the user's arguments and environment. The default refuses nothing.
        model_runner: the one of the engine's model runners that it is made to use, by its release, the user's
            environment, and the weights that are to stay in host memory; None where it chooses. The default has one.
        offload_refusal: why a release with that model runner keeps no weights in host memory, and what to write; None
            where it does. The default refuses nothing.
        other_runner: the model runner that does not serve a request on a GPU type, and the variable that names it; None
            where there is but one, which is the default.
        draft_refusal: why a release does not serve requests as long as that with a draft, and what to write; None where
            it does. The default refuses nothing.
        cache_refusal: why a release does not start with a model in a precision and a cache in another, and what to
            write; None where it does. The default refuses nothing.
        serves_in_stages: whether the engine may divide a model into pipeline stages. By default it may.
        served_on: the request as the engine serves it on a GPU, where it chooses types by itself. The default is the
            request.
        code_refusal: why an engine does not start with a model without running such code, and what to write; None where
            it does, or may run the code. The default refuses nothing.
        follows_block: whether the tokens of a block are certain where so many are named, or None where nobody names
            them. By default they are.
        misused_argument: the first of the user's arguments with which no engine of a release can start; None without
            any. The default knows no flags.
        least_driver: the oldest branch of NVIDIA's driver with which a release's own image starts, by the user's
            variables (None for a value that is not known); 0, the default, where that is not known.
        fills_cache: whether a start with these arguments and variables of the user downloads the model into the
            operator's cache volume. False, the default, where that is not known.
        start_logs: how its start-up log is read; None where nothing is known of it.
        start_commands: how a command line that starts it is read; None where nothing is known of it.
        host_cache_flags: the flags that set a KV cache in host memory: users may pass them, but not next to the field.
        host_cache_refusal: why a release keeps no KV cache of a model in host memory, or another one than is counted,
            and what to write; None where it does. It sees what the user's arguments and variables say.
        host_cache: what the KV cache in host memory holds; None without one.
        default_utilization: the share of the GPU that a release uses where nobody names one. The default is 0.9.
        knows_flags: whether :attr:`misused_argument` knows every flag of a release.
        command: the command of every container that runs it; empty, the default, for the image's own entry point.
    """

    name: str
    title: str
    oldest: EngineVersion
    metrics: EngineMetrics
    owned_flags: tuple[OwnedFlag, ...]
    reserved_environment: tuple[str, ...]
    lora_ranks: tuple[int, ...]
    since: Mapping[Feature, EngineVersion]
    copies_encoder_since: Mapping[str, EngineVersion]
    adapters_refusal: Callable[[ModelFacts], str | None]
    host_use: Callable[[Iterable[str], Variables], HostUse]
    host: Callable[[Request, Vendor, Split], HostEstimate]
    loaded: Callable[[ModelFacts, EngineChoice], ModelFacts]
    missing_capability: Callable[[Request, GpuType], Numbers]
    settings: Callable[[Request, GpuType, Split], EngineSettings]
    lean_settings: Callable[[Request, GpuType, Split, EngineSettings], EngineSettings]
    estimate: Callable[[Request, GpuType, Split, EngineSettings], MemoryEstimate]
    full_length_tokens: Callable[[Request, GpuType, Split, EngineSettings, MemoryEstimate, int], int]
    cache_bytes: Callable[[Request, GpuType, Split, EngineSettings, MemoryEstimate, int], tuple[int, int]]
    image: ImageOf
    launch: Callable[[WorkloadOptions, Option], Launch]
    find_failure: Callable[[str], EngineFailure | None]
    most_sequences: Callable[[Request, GpuType], int] = lambda request, _: request.shape.concurrency
    may_fit: Callable[[Request, GpuType, Split], bool] = _not_ruled_out
    release_refusal: Callable[[ModelFacts, Precision, EngineVersion], str | None] = lambda *_: None
    context_refusal: Callable[[ModelFacts, int, Sequence[str], Mapping[str, str]], str | None] = lambda *_: None
    model_runner: Callable[[EngineVersion, Mapping[str, str], Residency | None], int | None] = lambda *_: None
    offload_refusal: Callable[[EngineVersion, int | None], str | None] = lambda *_: None
    other_runner: Callable[[Request, GpuType], tuple[int, str] | None] = lambda *_: None
    draft_refusal: Callable[[Speculation, int, EngineVersion], str | None] = lambda *_: None
    cache_refusal: Callable[[ModelFacts, Precision, KvPrecision, EngineVersion], str | None] = lambda *_: None
    serves_in_stages: Callable[[ModelFacts], bool] = lambda _: True
    served_on: Callable[[Request, GpuType], Request] = lambda request, _: request
    code_refusal: Callable[[ModelFacts, EngineChoice], str | None] = lambda *_: None
    follows_block: Callable[[ModelFacts, int | None], bool] = lambda *_: True
    misused_argument: Callable[[Sequence[str], EngineVersion], Misuse | None] = lambda *_: None
    least_driver: Callable[[EngineVersion, Mapping[str, str | None]], int] = lambda *_: 0
    fills_cache: Callable[[Sequence[str], Mapping[str, str | None]], bool] = lambda *_: False
    start_logs: StartLogReader | None = None
    start_commands: StartCommandReader | None = None
    host_cache_flags: tuple[OwnedFlag, ...] = ()
    host_cache_refusal: Callable[[ModelFacts, EngineVersion, StartOptions, Variables], str | None] = lambda *_: None
    host_cache: Callable[[Request, GpuType, Split, EngineSettings, MemoryEstimate], HostCache | None] = lambda *_: None
    default_utilization: Callable[[EngineVersion], float] = lambda _: 0.9
    knows_flags: bool = False
    command: tuple[str, ...] = ()
