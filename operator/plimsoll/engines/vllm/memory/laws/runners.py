"""The model runner, of vLLM's two, that serves a model by default.

Source: ``config/vllm.py``, ``use_v2_model_runner``, read in 0.22 to 0.32. A draft by n-grams falls back to the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll.domain.cluster.gpus import GpuType, Vendor
from plimsoll.domain.models.model import ModelFacts
from plimsoll.memory.kinds import is_recurrent


@dataclass(frozen=True, slots=True)
class RunnerV2:
    """Models that the second runner serves by default: those of ``classes``, and all dense ones, or all.

    ``plain_only`` leaves out experts and quantized checkpoints, even of ``classes``; ``dense`` takes models without
    experts and recurrent layers; ``not_on_amd`` are classes that stay with the first runner there.
    """

    classes: frozenset[str] = frozenset()
    plain_only: bool = False
    dense: bool = False
    everybody: bool = False
    not_on_amd: frozenset[str] = frozenset()

    def serves(self, model: ModelFacts, gpu: GpuType | None) -> bool:
        """Whether it serves ``model``; an unknown GPU counts as NVIDIA's."""
        if gpu is not None and gpu.vendor is Vendor.AMD and model.architecture in self.not_on_amd:
            return False
        if self.everybody:
            return True
        if self.plain_only and (model.experts is not None or model.checkpoint.precision.is_quantized):
            return False
        is_dense = model.experts is None and not is_recurrent(model)
        return model.architecture in self.classes or (self.dense and is_dense)


NOBODY = RunnerV2()

SWITCH = "VLLM_USE_V2_MODEL_RUNNER"
"""The variable that decides between the runners, whatever the model (``envs.py``, 0.22 to 0.32)."""


def forced(runner: int) -> RunnerV2:
    """Return who is served by the second runner where the switch names one of both: everybody or nobody."""
    return RunnerV2(everybody=True) if runner == 2 else NOBODY  # noqa: PLR2004 - the engine counts its runners


QWEN3 = RunnerV2(frozenset({"Qwen3ForCausalLM"}), plain_only=True)
"""0.22."""

THREE_CLASSES = RunnerV2(QWEN3.classes | {"LlamaForCausalLM", "MistralForCausalLM"}, plain_only=True)
"""0.23."""

_EXPERTS = frozenset({"DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM"})

SIX_CLASSES = RunnerV2(THREE_CLASSES.classes | _EXPERTS)
"""0.24."""

DENSE = RunnerV2(_EXPERTS, dense=True)
"""0.25."""

_SINCE_0_26 = frozenset({"InklingForCausalLM", "InklingForConditionalGeneration", "LongcatFlashNgramForCausalLM"})
_KIMI_K3 = frozenset({"KimiK3ForConditionalGeneration"})
_DEEPSEEK_V4 = frozenset({"DeepseekV4ForCausalLM"})

DENSE_0_26 = RunnerV2(_EXPERTS | _SINCE_0_26, dense=True)
DENSE_0_27 = RunnerV2(DENSE_0_26.classes | _KIMI_K3, dense=True, not_on_amd=_KIMI_K3)
DENSE_0_28 = RunnerV2(DENSE_0_27.classes | _DEEPSEEK_V4, dense=True, not_on_amd=_DEEPSEEK_V4)

EVERYBODY = RunnerV2(everybody=True, not_on_amd=_DEEPSEEK_V4 | {"DeepseekV32ForCausalLM"})
"""0.29."""

EVERYBODY_0_30 = RunnerV2(everybody=True, not_on_amd=EVERYBODY.not_on_amd | {"GlmMoeDsaForCausalLM"})
