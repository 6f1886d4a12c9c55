"""The order in which sources answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll.adapters.hub.hub import HubModels
from plimsoll.adapters.hub.models import ModelSources
from plimsoll.domain.errors import InvalidInput, ModelNotFound, SourceUnavailable
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.facts.models.config_json import read_model_facts

KNOWN = "meta-llama/Llama-3.1-8B-Instruct"
INLINE: dict[str, object] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "max_position_embeddings": 1024,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 256,
}


class ScriptedHub(HubModels):
    """Answers with one outcome and remembers the questions."""

    def __init__(self, outcome: Exception | None = None) -> None:
        super().__init__(Path("unused"))
        self.outcome = outcome
        self.asked: list[tuple[str, str | None, str | None]] = []

    def facts(self, name: str, revision: str | None, token: str | None, *, asker: str = "") -> ModelFacts:
        assert asker == ""
        self.asked.append((name, revision, token))
        if self.outcome is not None:
            raise self.outcome
        return read_model_facts(name, INLINE, revision=revision, source=FactsSource.HUB)


def test_an_inline_configuration_wins() -> None:
    hub = ScriptedHub()
    facts = ModelSources(hub).resolve(KNOWN, revision="v1", token=None, inline=INLINE)
    assert (facts.source, facts.layers, facts.revision) == (FactsSource.INLINE, 2, "v1")
    assert not hub.asked


def test_an_inline_configuration_that_is_wrong_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"config\.json: architectures"):
        ModelSources(ScriptedHub()).resolve(KNOWN, revision=None, token=None, inline={})


def test_the_catalogue_answers_without_a_revision() -> None:
    hub = ScriptedHub()
    assert ModelSources(hub).resolve(KNOWN, revision=None, token=None, inline=None).source is FactsSource.CATALOG
    assert not hub.asked


def test_the_hub_answers_for_other_models() -> None:
    hub = ScriptedHub()
    facts = ModelSources(hub).resolve("org/other", revision=None, token="hf_x", inline=None)  # noqa: S106
    assert facts.source is FactsSource.HUB
    assert hub.asked == [("org/other", None, "hf_x")]


def test_a_pinned_revision_asks_the_hub() -> None:
    hub = ScriptedHub()
    facts = ModelSources(hub).resolve(KNOWN, revision="v1", token=None, inline=None)
    assert (facts.source, facts.revision) == (FactsSource.HUB, "v1")


def test_the_catalogue_stands_in_for_a_hub_out_of_reach() -> None:
    sources = ModelSources(ScriptedHub(SourceUnavailable("down")))
    facts = sources.resolve(KNOWN, revision="v1", token=None, inline=None)
    assert (facts.source, facts.revision, facts.layers) == (FactsSource.CATALOG, "v1", 32)
    with pytest.raises(SourceUnavailable, match="down"):
        sources.resolve("org/other", revision="v1", token=None, inline=None)


def test_a_refusal_of_the_hub_is_final() -> None:
    with pytest.raises(ModelNotFound, match="no such revision"):
        ModelSources(ScriptedHub(ModelNotFound("no such revision"))).resolve(
            KNOWN, revision="v9", token=None, inline=None
        )


def test_a_name_that_the_hub_does_not_know_gets_suggestions_from_the_catalogue() -> None:
    sources = ModelSources(ScriptedHub(ModelNotFound("there is none.")))
    with pytest.raises(ModelNotFound, match=r"^there is none\. Did you mean meta-llama/Llama-3\.1-8B-Instruct\?$"):
        sources.resolve("Llama-3.1-8b-instruct", revision=None, token=None, inline=None)
    for name, revision in (("org/like-no-other", None), (KNOWN, "v1")):
        with pytest.raises(ModelNotFound, match=r"^there is none\.$"):
            sources.resolve(name, revision=revision, token=None, inline=None)
