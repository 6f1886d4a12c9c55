"""A user's own arguments and variables get the answer of a written command: refused, in doubt, or followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from plimsoll.api.conversion.convert import check_without_model, to_request
from plimsoll.domain.decisions.outcomes import Fit, Split
from plimsoll.domain.decisions.terms import DoubtKind
from plimsoll.domain.engines.engine_choice import EngineVersion
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.models.model import FactsSource, ModelFacts
from plimsoll.domain.requests.serving import Request
from plimsoll.engines.flags import owned_flag
from plimsoll.engines.registry import engine_of
from plimsoll.engines.vllm.flags.table import Option, table_for
from plimsoll.placement.options.sizing import Sized, size_on
from tests.api.manifests import deployment
from tests.support.planning import gpu, model
from tests.support.tables import every_case

RELEASE = EngineVersion(0, 32)
OF_HUB = replace(model(), source=FactsSource.HUB, files=frozenset({"config.json", "tokenizer.json"}))

VALUES = ("auto", "mistral", "10", "0", "-1", "0.5", "true", "{}", '{"a": 1}', "a=/b", "x y", "")
"""Values of every kind, right and wrong. Each choice of an option is tried, too."""


def asked(*words: str, facts: ModelFacts = OF_HUB, **engine: Any) -> Request:
    """The request of a spec with these arguments."""
    resource = deployment(engine={"extraArgs": list(words), **engine})
    check_without_model(resource.spec)
    return to_request(resource, facts)


def fit(request: Request) -> Fit:
    answer = size_on(request, gpu("h100-sxm-80gb"), Split(1))
    assert isinstance(answer, Sized)
    return answer.figures.fit


def _calls(option: Option) -> Iterator[tuple[str, ...]]:
    """Command lines with one option: its switch, its choices, and values that may be wrong."""
    name = option.names[0]
    if option.is_switch:
        yield (name,)
    else:
        yield from ((name, value) for value in dict.fromkeys((*option.choices, *option.registered[:1], *VALUES)))


def _answer(words: tuple[str, ...]) -> Request | InvalidInput:
    try:
        return asked(*words)
    except InvalidInput as error:
        return error


def _refused_as_written(words: tuple[str, ...]) -> bool:
    reader = engine_of().start_commands
    assert reader is not None
    try:
        return reader.misfit(OF_HUB, reader.read(words, {}, "here", RELEASE), RELEASE) is not None
    except InvalidInput:
        return True


def test_every_flag_of_a_release_gets_the_answer_of_a_written_command() -> None:
    """A spec is refused where a written command with the same option is; the operator's own flags are left out."""
    owned, others = engine_of().owned_flags, []
    calls = [each for option in set(table_for(RELEASE).options.values()) for each in _calls(option)]
    for words in (each for each in calls if owned_flag(each[0], owned) is None):
        answer = _answer(words)
        if isinstance(answer, InvalidInput):
            others += [] if answer.field.startswith(("spec.engine.extraArgs", "spec.model")) else [words]
        elif _refused_as_written(words):
            others.append(words)
        elif answer.engine.unfollowed or answer.engine.unconfirmed:
            assert fit(answer) is Fit.PROBABLE, words
    assert others == []
    assert len(calls) > 1000


def test_files_that_a_flag_needs_are_looked_for() -> None:
    words = ("--config-format", "mistral")
    with pytest.raises(InvalidInput, match=r"spec\.engine\.extraArgs: --config-format: 'mistral' .* params\.json"):
        asked(*words)
    there = replace(OF_HUB, files=frozenset({"params.json"}))
    assert fit(asked(*words, facts=there)) is Fit.SURE
    unknown = replace(OF_HUB, files=None)
    answer = size_on(asked(*words, facts=unknown), gpu("h100-sxm-80gb"), Split(1))
    assert isinstance(answer, Sized)
    assert [each.kind for each in answer.figures.doubts] == [DoubtKind.FILES_NOT_KNOWN]
    assert fit(asked(facts=unknown)) is Fit.SURE, "its neighbour without the flag"


@every_case("words", ["--lora-modules a=/b", "--max-cpu-loras 1"])
def test_adapters_are_judged_with_those_of_the_spec(words: str) -> None:
    more: dict[str, Any] = {"lora": {"maxAdapters": 2, "maxRank": 8}} if "cpu" in words else {}
    with pytest.raises(InvalidInput, match=r"spec\.engine\.extraArgs: --(lora-modules|max-cpu-loras)"):
        asked(*words.split(), **more)
    assert asked(*words.split(), lora={"maxAdapters": 1, "maxRank": 8}).engine.lora is not None


def test_an_image_of_the_users_own_may_take_what_no_release_takes() -> None:
    for words in (("--block-size=0",), ("--config-format", "mistral"), ("--block-size=20",)):
        with pytest.raises(InvalidInput):
            asked(*words)
        assert asked(*words, image="registry.example/own:1").engine.image
    assert asked("--block-size=0", image="registry.example/own:1").engine.unfollowed == ("--block-size=0",)


def test_what_the_law_follows_is_followed() -> None:
    usual, fixed = (
        asked().engine,
        asked("--block-size=32", "--no-async-scheduling", "--no-enable-prefix-caching").engine,
    )
    assert (usual.block_tokens, usual.plans_ahead, usual.prefix_caching) == (None, True, None)
    assert (fixed.block_tokens, fixed.plans_ahead, fixed.prefix_caching) == (32, False, False)
    assert fixed.unfollowed == ()
    assert fit(asked("--block-size=32")) is Fit.SURE


def test_a_prefix_without_its_cache_is_refused() -> None:
    prefix = {"sharedPrefix": {"tokens": 600, "requestsPercent": 90}}
    for words in ([], ["--enable-prefix-caching"]):
        found = to_request(deployment(workload=prefix, engine={"extraArgs": words}), OF_HUB).shape
        assert (found.shared_tokens, found.shared_percent, found.cached_tokens) == (600, 90, 540)
    off = deployment(workload=prefix, engine={"extraArgs": ["--no-enable-prefix-caching"]})
    with pytest.raises(InvalidInput, match=r"spec\.workload\.sharedPrefix\.tokens: 600 .* remove that argument"):
        to_request(off, OF_HUB)


def test_who_may_not_start_is_planned_as_who_does() -> None:
    """A doubt about the start says nothing against the figures, so such engines get as many requests as others."""
    for words, trusted in (((), True), (("--numa-bind-nodes", "0"), True), (("--hf-overrides", "{}"), False)):
        answer = size_on(asked(*words), gpu("h100-sxm-80gb"), Split(1))
        assert isinstance(answer, Sized)
        assert (answer.figures.is_trusted, answer.figures.fit is Fit.SURE) == (trusted, not words)
