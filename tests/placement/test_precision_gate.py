"""Which GPUs a checkpoint's method leaves out, beyond what its precision does."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.cluster.gpus import GpuType, Interconnect, Vendor
from plimsoll.domain.engines.engine_choice import EngineChoice, EngineVersion
from plimsoll.domain.models.model import CheckpointFacts, FactsSource, ModelFacts
from plimsoll.domain.models.precision import KvPrecision, Precision
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.capabilities import missing_capability, upcasts
from plimsoll.engines.vllm.settings import served_on
from tests.support.planning import request
from tests.support.tables import every_case


def cuda(*capability: int) -> GpuType:
    return _gpu(Vendor.NVIDIA, compute_capability=(capability[0], capability[1]))


def amd(gfx: str) -> GpuType:
    return _gpu(Vendor.AMD, gfx=gfx)


def _gpu(vendor: Vendor, *, compute_capability: tuple[int, int] | None = None, gfx: str | None = None) -> GpuType:
    return GpuType(
        name="some-gpu",
        vendor=vendor,
        product_labels=(),
        usable_bytes=80 * GIB,
        total_bytes=80 * GIB,
        compute_capability=compute_capability,
        gfx=gfx,
        interconnect=Interconnect.PCIE,
        scale_up_gpus=1,
        memory_bandwidth_gb_per_second=2000,
    )


def checkpoint(
    precision: Precision,
    least: tuple[int, int] | None = None,
    most: tuple[int, int] | None = None,
) -> ModelFacts:
    stored = CheckpointFacts(precision, Precision.BF16, min_capability=least, max_capability=most)
    return ModelFacts(
        name="org/model",
        revision=None,
        architecture="LlamaForCausalLM",
        source=FactsSource.INLINE,
        hidden=4096,
        heads=32,
        vocabulary=32000,
        intermediate=14336,
        kinds=(),
        order=(),
        embedding=(),
        head=(),
        checkpoint=stored,
        max_context_tokens=4096,
    )


def need(model: ModelFacts, gpu: GpuType, kv: KvPrecision = KvPrecision.FP16) -> str | None:
    return dict(missing(model, model.checkpoint.precision, kv, gpu)).get("need")


def missing(
    model: ModelFacts, precision: Precision, kv: KvPrecision, gpu: GpuType, release: str = "0.32.0"
) -> tuple[tuple[str, str], ...]:
    engine = EngineChoice(EngineVersion.of(release))
    return missing_capability(request(model, precision=precision, kv_precision=kv, engine=engine), gpu)


W4A8 = checkpoint(Precision.GPTQ, (9, 0), (9, 0))


@every_case(
    ("model", "gpu", "kv", "what"),
    [
        (W4A8, cuda(8, 9), KvPrecision.FP16, "compute capability 9.0"),
        (W4A8, cuda(9, 0), KvPrecision.FP16, None),
        (W4A8, cuda(10, 0), KvPrecision.FP16, "compute capability 9.0 at most"),
        (checkpoint(Precision.GPTQ), cuda(10, 0), KvPrecision.FP16, None),
        (checkpoint(Precision.FP8, (8, 0)), cuda(7, 5), KvPrecision.FP16, "compute capability 8.0"),
        (checkpoint(Precision.FP8), cuda(7, 5), KvPrecision.FP16, None),
        (checkpoint(Precision.BITSANDBYTES), cuda(7, 5), KvPrecision.FP16, None),
        (checkpoint(Precision.BITSANDBYTES), cuda(7, 0), KvPrecision.FP16, "compute capability 7.5"),
        (checkpoint(Precision.BITSANDBYTES), amd("gfx942"), KvPrecision.FP16, "an NVIDIA GPU"),
        (checkpoint(Precision.NVFP4), cuda(10, 0), KvPrecision.NVFP4, None),
        (checkpoint(Precision.NVFP4), cuda(9, 0), KvPrecision.NVFP4, "compute capability 10.0"),
        (checkpoint(Precision.AWQ), amd("gfx942"), KvPrecision.NVFP4, "an NVIDIA GPU"),
        (checkpoint(Precision.AWQ), amd("gfx90a"), KvPrecision.FP16, None),
        (checkpoint(Precision.GPTQ), amd("gfx90a"), KvPrecision.FP8, "gfx942 or gfx950"),
        (checkpoint(Precision.GPTQ), cuda(7, 5), KvPrecision.INT8, "compute capability 8.0"),
        (checkpoint(Precision.GPTQ), cuda(8, 0), KvPrecision.INT8, None),
        (checkpoint(Precision.GPTQ), cuda(8, 0), KvPrecision.INT4, None),
        (checkpoint(Precision.GPTQ), cuda(8, 6), KvPrecision.FP8_SCALED, "compute capability 8.9"),
        (checkpoint(Precision.GPTQ), cuda(8, 9), KvPrecision.FP8_SCALED, None),
        (checkpoint(Precision.GPTQ), amd("gfx90a"), KvPrecision.FP8_SCALED, "gfx942 or gfx950"),
        (checkpoint(Precision.GPTQ), amd("gfx90a"), KvPrecision.INT8, None),
        (checkpoint(Precision.GPTQ), cuda(7, 5), KvPrecision.TURBO_K8V4, "compute capability 8.0"),
        (checkpoint(Precision.GPTQ), cuda(8, 0), KvPrecision.TURBO_K8V4, None),
        (checkpoint(Precision.GPTQ), amd("gfx942"), KvPrecision.TURBO_K8V4, "an NVIDIA GPU"),
        (checkpoint(Precision.MXFP4), amd("gfx942"), KvPrecision.BF16, None),
        (checkpoint(Precision.MXFP4), amd("gfx906"), KvPrecision.BF16, "gfx90a"),
    ],
)
def test_method_and_cache_bound_the_gpus(model: ModelFacts, gpu: GpuType, kv: KvPrecision, what: str | None) -> None:
    said = need(model, gpu, kv)
    assert said == what or (said or "").split(" or ")[0] == what


def test_the_checkpoint_s_bound_does_not_hold_for_another_precision() -> None:
    """A 16-bit checkpoint that is quantized while loading is not bound by the method of a published one."""
    model = replace(W4A8, checkpoint=replace(W4A8.checkpoint, precision=Precision.BF16))
    assert missing(model, Precision.FP8, KvPrecision.FP16, cuda(8, 9)) == ()


OVERFLOWING = ("Gemma2ForCausalLM", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma3TextModel",
               "Glm4ForCausalLM")  # fmt: skip
OTHERS = ("Gemma3nForCausalLM", "Gemma4ForConditionalGeneration", "GemmaForCausalLM", "Glm4MoeForCausalLM",
          "Glm4vForConditionalGeneration", "GlmForCausalLM", "LlamaForCausalLM")  # fmt: skip


@every_case("architecture", (*OVERFLOWING, *OTHERS))
def test_models_that_overflow_in_float16_need_bfloat16(architecture: str) -> None:
    """Source: ``_FLOAT16_NOT_SUPPORTED_MODELS`` of vLLM's ``config/model.py``, 0.10.2 to 0.33."""
    overflows = architecture in OVERFLOWING
    plain = replace(checkpoint(Precision.BF16), architecture=architecture)
    packed = replace(checkpoint(Precision.AWQ), architecture=architecture)

    def is_refused(facts: ModelFacts, precision: Precision, gpu: GpuType) -> bool:
        kv = KvPrecision.FP16 if precision is Precision.FP16 else KvPrecision.BF16
        return missing(facts, precision, kv, gpu) != ()

    assert is_refused(plain, Precision.FP16, cuda(9, 0)) is overflows
    assert is_refused(plain, Precision.FP16, amd("gfx942")) is overflows
    assert is_refused(plain, Precision.FP16, cuda(7, 5)) is overflows
    assert is_refused(packed, Precision.AWQ, cuda(7, 5)) is overflows, "it would be cast to float16"
    assert not is_refused(plain, Precision.BF16, cuda(8, 0))
    assert not is_refused(packed, Precision.AWQ, cuda(8, 0))
    older = missing(plain, Precision.FP16, KvPrecision.FP16, cuda(9, 0), "0.9.0")
    assert older == (), "the rule came with 0.9.1, and with 0.10.2 for the text models of Gemma 3"


@every_case("precision", (Precision.BF16, Precision.FP16))
def test_the_engine_computes_in_float32_where_no_type_of_16_bits_is_left(precision: Precision) -> None:
    """``_resolve_auto_dtype`` of vLLM's ``config/model.py``; ``tests/engine/test_flag_starts.py`` asks the engine."""
    plain = replace(checkpoint(precision), architecture="Gemma3ForCausalLM")
    engine = EngineChoice(EngineVersion(0, 32), casts_type=True)
    cache = KvPrecision.FP16 if precision is Precision.FP16 else KvPrecision.BF16
    asked = request(plain, precision=precision, kv_precision=cache, engine=engine)

    def served(card: GpuType, engine: EngineChoice = engine) -> tuple[Precision, bool]:
        found = served_on(replace(asked, engine=engine), card)
        return found.precision, missing_capability(found, card) == ()

    assert served(cuda(7, 5)) == (Precision.FP32, True)
    assert served(cuda(8, 0)) == (Precision.BF16, True)
    assert served(cuda(7, 5), engine=replace(engine, casts_type=False))[1] is False, "somebody names the type"
    older = replace(engine, version=EngineVersion(0, 10, 1))
    assert served(cuda(7, 5), engine=older) == (Precision.FP16, True)


@every_case("method", ("compressed-tensors", "torchao", "gptq", "fp8"))
def test_kernels_for_quantized_weights_mostly_lack_float32(method: str) -> None:
    facts = checkpoint(Precision.GPTQ)
    facts = replace(facts, architecture="Gemma3ForCausalLM", checkpoint=replace(facts.checkpoint, method=method))
    engine = EngineChoice(EngineVersion(0, 32), casts_type=True)
    asked = request(facts, precision=Precision.GPTQ, kv_precision=KvPrecision.FP16, engine=engine)
    runs = method in ("compressed-tensors", "torchao")
    assert (missing_capability(asked, cuda(7, 5)) == ()) is runs
    assert upcasts(asked, cuda(7, 5)) is runs
