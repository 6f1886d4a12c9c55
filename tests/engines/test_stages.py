"""Model classes that vLLM does not divide into pipeline stages (``SupportsPP``), and their neighbours that it does."""

from __future__ import annotations

from dataclasses import replace

from plimsoll.domain.decisions.outcomes import Split
from plimsoll.domain.public_words import Reason
from plimsoll.engines.vllm.refusals import serves_in_stages
from plimsoll.placement.options.divisibility import replica_refusal
from tests.support.planning import H100, model, request
from tests.support.tables import every_case

WHOLE = (
    "Gemma3nForConditionalGeneration",
    "Gemma3nForCausalLM",
    "Phi4MMForCausalLM",
    "SmolVLMForConditionalGeneration",
    "Idefics3ForConditionalGeneration",
    "Mamba2ForCausalLM",
    "Zamba2ForCausalLM",
    "WhisperForConditionalGeneration",
    "BertModel",
    "ModernBertModel",
    "NomicBertModel",
    "XLMRobertaForSequenceClassification",
    "GteNewModel",
    "IQuestLoopCoderForCausalLM",
    "NemotronH_Nano_VL_V2",
)
DIVIDED = ("Gemma3ForConditionalGeneration", "Gemma3ForCausalLM", "Phi3ForCausalLM", "MambaForCausalLM",
           "LlamaForCausalLM", "NemotronHForCausalLM", "DeepseekV4ForCausalLM", "Qwen2Model")  # fmt: skip


@every_case("architecture", (*WHOLE, *DIVIDED))
def test_only_some_classes_have_no_stages(architecture: str) -> None:
    facts = replace(model(), architecture=architecture)
    assert serves_in_stages(facts) is (architecture in DIVIDED)
    wanted = replace(request(), model=facts)
    found = replica_refusal(wanted, H100, Split(1, 2))
    assert (found is None) is (architecture in DIVIDED)
    assert found is None or found.reason is Reason.STAGES_NOT_SUPPORTED
    assert replica_refusal(wanted, H100, Split(2)) is None
