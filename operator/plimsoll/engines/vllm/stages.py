"""The model classes that vLLM does not divide into pipeline stages: it refuses to start with more than one.

Source: ``verify_with_parallel_config`` of ``config/model.py``. These are the classes of ``model_executor/models`` that
have no ``SupportsPP`` among their bases, read in 0.10, 0.15, 0.25, 0.32 and 0.33. Classes that only some of these
releases lack it for are left out.
"""

from __future__ import annotations

import re

from plimsoll.domain.model import ModelFacts

_WHOLE = re.compile(
    r"(Modern|Nomic)?BertFor\w+|(Modern|Nomic)?BertModel|(XLM)?Roberta\w+|Gte(New)?\w+|Gemma3nFor\w+|Idefics3For\w+"
    r"|SmolVLMFor\w+|Mamba2ForCausalLM|Zamba2ForCausalLM|IQuestLoopCoderForCausalLM|NemotronH_Nano_VL_V2"
    r"|Phi4MMForCausalLM|WhisperFor\w+"
)


def serves_in_stages(model: ModelFacts) -> bool:
    """Whether the engine may divide the model into pipeline stages."""
    return _WHOLE.fullmatch(model.architecture) is None
