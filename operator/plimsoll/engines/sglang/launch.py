"""How a container runs an SGLang server: its image, its command line, its probes and its end.

Every flag whose default depends on the card, the release or the model is given explicitly.
"""

from __future__ import annotations

from plimsoll.domain.cluster.gpus import Vendor
from plimsoll.domain.decisions.outcomes import EngineSettings, Option
from plimsoll.domain.engines.engine_choice import DraftMethod, EngineVersion
from plimsoll.domain.requests.workload import CACHE_PATH, ENGINE_PORT, TEMPORARY_PATH, WorkloadOptions
from plimsoll.domain.units import GIB, ceil_div
from plimsoll.engines.base import Launch, Probe

COMMAND = ("sglang", "serve")
"""The image's entry point starts a shell. Since 0.5.14 at the latest; before, ``python -m sglang.launch_server``."""

DRAIN_SECONDS = 90
"""How long running requests may finish after SIGTERM, where nothing was decided. The engine drains without a deadline
(0.5.23, seen), so the pod's grace period is the only bound."""

BASE_START_SECONDS = 900
START_SECONDS_PER_GIB = 12
"""As for vLLM: compilation, graphs and warm-up, and about 85 MiB/s from a slow disk or hub."""

_READY_SINCE = EngineVersion(0, 5, 20)
_GENERATION = "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"
"""``/health`` generates a token, which takes a second and more, unless this is 0. Then it is a flag, as ``/ready`` is,
which 0.5.20 added (0.5.23, seen)."""

_HEALTH_SECONDS = 25
"""The engine itself waits 20 s for that token."""

WRITTEN_PATHS = {
    "HOME": f"{CACHE_PATH}/home",
    "XDG_CACHE_HOME": f"{CACHE_PATH}/xdg",
    "HF_HOME": f"{CACHE_PATH}/huggingface",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_PATH}/torchinductor",
    "TRITON_CACHE_DIR": f"{CACHE_PATH}/triton",
    "FLASHINFER_WORKSPACE_BASE": f"{CACHE_PATH}/flashinfer",
    "TMPDIR": TEMPORARY_PATH,
}
"""Paths that the engine and its libraries write to, because the root file system is read-only."""

RESERVED_ENVIRONMENT = (_GENERATION, "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING")
"""Variables that probes and the memory law depend on. The second sizes the pool by another law (0.5.18 and later)."""

ENGINE_UID = 2000
"""The image prepares no user. Any user with the paths above will do; group 0."""


def launch(options: WorkloadOptions, choice: Option) -> Launch:
    """Return how a container runs one replica of ``choice``."""
    start = _start_seconds(choice)
    release = EngineVersion.of(options.engine_version)
    is_ready = "/ready" if release >= _READY_SINCE else "/health"
    flag = {} if release >= _READY_SINCE else {_GENERATION: "0"}
    return Launch(
        command=COMMAND,
        arguments=tuple(engine_arguments(options, choice)),
        environment=WRITTEN_PATHS | flag,
        user_id=ENGINE_UID,
        start_seconds=start,
        drain_seconds=DRAIN_SECONDS if options.drain_seconds is None else options.drain_seconds,
        startup=Probe(is_ready, 10, ceil_div(start, 10)),
        readiness=Probe(is_ready, period_seconds=5, failures=3),
        liveness=Probe("/health", 30, failures=3, timeout_seconds=_HEALTH_SECONDS),
    )


def engine_arguments(options: WorkloadOptions, choice: Option) -> list[str]:
    """Return the arguments of ``sglang serve`` for one replica of ``choice``."""
    settings = choice.settings
    arguments = ["--model-path", options.model_source, "--served-model-name", options.key.name]
    if options.revision is not None:
        arguments += ["--revision", options.revision]
    arguments += [
        *("--context-length", str(settings.max_model_len)),
        *("--max-running-requests", str(settings.max_num_seqs * choice.split.data_parallel)),
        *("--chunked-prefill-size", str(settings.max_num_batched_tokens)),
        *("--tp-size", str(choice.split.tensor_parallel)),
        *("--dtype", settings.dtype),
        *("--kv-cache-dtype", settings.kv_cache_dtype),
        *_static(settings),
    ]
    if settings.quantization is not None:
        arguments += ["--quantization", settings.quantization]
    arguments += [*_graphs(settings), *_speculation(settings, options)]
    return [*arguments, "--host", "0.0.0.0", "--port", str(ENGINE_PORT), "--enable-metrics", *options.extra_args]  # noqa: S104


def _static(settings: EngineSettings) -> list[str]:
    """Flags of the share, with three decimals, and of how the caches divide it."""
    static = settings.static
    if static is None:
        return []
    flags = {"--mem-fraction-static": f"{static.thousandths / 1000:.3f}"}
    if static.window_thousandths is not None:
        flags["--swa-full-tokens-ratio"] = f"{static.window_thousandths / 1000:.3f}"
    if static.state_slots is not None:
        flags["--max-mamba-cache-size"] = str(static.state_slots)
    return [word for flag, value in flags.items() for word in (flag, value)]


def _graphs(settings: EngineSettings) -> list[str]:
    if not settings.enforce_eager:
        return ["--cuda-graph-max-bs-decode", str(settings.max_num_seqs)]
    return ["--cuda-graph-backend-decode", "disabled", "--cuda-graph-backend-prefill", "disabled"]


_ALGORITHMS = {
    DraftMethod.MTP: "NEXTN",
    DraftMethod.EAGLE: "EAGLE",
    DraftMethod.EAGLE3: "EAGLE3",
    DraftMethod.DRAFT_MODEL: "STANDALONE",
}
"""The engine's words for ``--speculative-algorithm`` (``arg_groups/fields/spec.py``)."""


def _speculation(settings: EngineSettings, options: WorkloadOptions) -> list[str]:
    """Flags of speculative decoding: a chain of guesses, which are verified together with the token before them."""
    drafting = settings.drafting
    if drafting is None:
        return []
    flags = {
        "--speculative-algorithm": _ALGORITHMS[drafting.method],
        "--speculative-num-steps": str(drafting.tokens),
        "--speculative-eagle-topk": "1",
        "--speculative-num-draft-tokens": str(drafting.tokens + 1),
        "--speculative-draft-model-path": options.draft_source,
        "--speculative-draft-model-revision": options.draft_revision,
    }
    return [word for flag, value in flags.items() if value is not None for word in (flag, value)]


def _start_seconds(choice: Option) -> int:
    weights_gib = ceil_div(choice.estimate.weights_bytes * choice.split.gpus, GIB)
    return BASE_START_SECONDS + START_SECONDS_PER_GIB * weights_gib


_REPOSITORIES = {Vendor.NVIDIA: "lmsysorg/sglang", Vendor.AMD: "lmsysorg/sglang-rocm"}
"""Source: Docker Hub, organisation ``lmsysorg``."""

_ROCM_TAGS = {
    "gfx942": {
        "0.5.14": "v0.5.14-rocm720-mi30x-20260702",
        "0.5.16": "v0.5.16-rocm720-mi30x-20260730",
        "0.5.18": "v0.5.18-rocm720-mi30x-20260829",
        "0.5.20": "v0.5.20-rocm724-mi30x-20260919",
    },
    "gfx950": {
        "0.5.14": "v0.5.14-rocm720-mi35x-20260705",
        "0.5.17": "v0.5.17-rocm720-mi35x-20260819",
        "0.5.18": "v0.5.18-rocm720-mi35x-20260829",
        "0.5.19": "v0.5.19-rocm720-mi35x-20260915",
        "0.5.20": "v0.5.20-rocm724-mi35x-20260920",
        "0.5.21": "v0.5.21-rocm720-mi35x-20261006",
    },
}
"""Tags for AMD's accelerators, by target and release. They hold a release of ROCm, a generation and a date, which no
rule gives. Each is one that others run, read 2026-11: ROCm's requirements of Hyperloom (0.5.20), the recipes of
sgl-cookbook (0.5.18, 0.5.21) and of InferenceX (0.5.19), and public deployments."""


def rocm_releases(gfx: str | None) -> tuple[str, ...]:
    """Return the releases of which an image for a target is known, the oldest first."""
    return tuple(_ROCM_TAGS.get(gfx or "", {}))


_OLDEST_DRIVER = 580
"""The oldest branch of NVIDIA's driver for CUDA 13, which the images of 0.5.14 and later have. Source: table 1 of
https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"""


def image(vendor: Vendor, release: str, gfx: str | None = None) -> str:
    """Return the image of a release for the GPUs of a vendor.

    One for AMD's GPUs has the usual form where no tag is known, so that an admin's mirror of it may have that tag.
    """
    tag = _ROCM_TAGS.get(gfx or "", {}).get(release, f"v{release}")
    return f"{_REPOSITORIES[vendor]}:{tag}"


def least_driver(*_: object) -> int:
    """Return the oldest branch of NVIDIA's driver with which an image starts."""
    return _OLDEST_DRIVER
