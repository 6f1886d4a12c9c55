"""Is every way to spell a flag of the operator's refused, and no other flag?

The engine's own parser says which spellings there are and which abbreviations it takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from plimsoll.api.crd.schema import crd
from plimsoll.engines.vllm.flags.extra_arguments import OWNED_FLAGS
from testbed.engine.arguments import Accepted, Refused
from tests.engine.questions import MODEL, parse
from tests.engine.recording import Recording
from tests.support.vllm_flags import owned_flag

REFUSED_WITH_A_FAMILY = {
    "cpu_offload_params": "spec.engine.cpuOffload says which weights stay in host memory",
    "offload_backend": "spec.engine.weightStreaming is the operator's, with every flag of it",
    "offload_num_in_group": "as above",
    "offload_params": "as above",
    "offload_prefetch_step": "as above",
    "quantization_config": "it quantizes the weights, as --quantization does",
    "data_parallel_address": "data parallelism is the operator's: a replica is a pod",
    "data_parallel_backend": "as above",
    "data_parallel_external_lb": "as above",
    "data_parallel_hybrid_lb": "as above",
    "data_parallel_multi_port_external_lb": "as above",
    "data_parallel_rank": "as above",
    "data_parallel_rpc_port": "as above",
    "data_parallel_size_local": "as above",
    "data_parallel_start_rank": "as above",
    "data_parallel_supervisor_port": "as above",
    "grpc_port": "the pod serves HTTP",
    "ssl_ca_certs": "the probes speak plain HTTP",
    "ssl_cert_reqs": "as above",
    "ssl_certfile": "as above",
    "ssl_ciphers": "as above",
}
"""Options that are refused although the table has no row of their own, and why."""

SHARED = {"--ep": "-ep is expert parallelism, and the table does not count dashes; --eplb-config is free in full"}
"""Abbreviations of free options that are refused all the same, and why."""

GLUED = {
    "-n2": "nnodes",
    "-n=2": "nnodes",
    "-n+2": "nnodes",
    "-qfp8": "quantization",
    "-q=fp8": "quantization",
    "-tp=2": "tensor_parallel_size",
    "--tensor_parallel_size=2": "tensor_parallel_size",
    "--max_model-len=1k": "max_model_len",
    "--te=2": "tensor_parallel_size",
    "--num_=3": "num_gpu_blocks_override",
    '-sc={"method":"ngram"}': "speculative_config",
    "-sc.method=ngram": "speculative_config",
    "--speculative-config.method=ngram": "speculative_config",
    "--spec-t=2": "spec_tokens",
    "--max-lora-r=64": "max_lora_rank",
}
"""Options with their value in one word, and the parser's name for what they set."""


class Spellings:
    """The parser's options by spelling, and what it says to abbreviations."""

    def __init__(self, recording: Recording) -> None:
        self.by_option = registered = parse(recording).spellings
        self.option_of = {spelling: option for option, names in registered.items() for spelling in names}
        self.owned = {self.option_of[flag.name] for flag in OWNED_FLAGS}
        owned = _abbreviations(spelling for option in self.owned for spelling in registered[option])
        free = _abbreviations(spelling for option in set(registered) - self.owned for spelling in registered[option])
        exact = {spelling for spelling, option in self.option_of.items() if option not in self.owned}
        self.of_owned = sorted(owned - exact)
        self.of_free = sorted(each for each in free - owned - exact if owned_flag(each))
        asked = [*self.of_owned, *self.of_free, *GLUED]
        plain, *answers = parse(recording, [[MODEL], *([MODEL, each] for each in asked)]).results
        self.plain = plain
        self.answers: dict[str, Accepted | Refused] = dict(zip(asked, answers, strict=True))

    def takes(self, argument: str) -> bool:
        """Whether the parser knows which option is meant, whatever it says about a missing value."""
        result = self.answers[argument]
        return isinstance(result, Accepted) or not result.error.startswith(("ambiguous option", "unrecognized"))


@pytest.fixture(scope="module")
def spellings(recording: Recording) -> Spellings:
    return Spellings(recording)


def _abbreviations(spellings: Iterable[str]) -> set[str]:
    """Every beginning of every spelling, whole ones included, from the first letter on."""
    return {
        spelling[:length]
        for spelling in spellings
        for length in range(3 if spelling.startswith("--") else 2, len(spelling) + 1)
    }


def test_every_row_is_a_flag_of_the_engine(spellings: Spellings) -> None:
    assert [flag.name for flag in OWNED_FLAGS if flag.name not in spellings.option_of] == []


def test_every_spelling_of_an_owned_flag_is_refused(spellings: Spellings) -> None:
    every = [spelling for option in spellings.owned for spelling in spellings.by_option[option]]
    assert [spelling for spelling in every if owned_flag(spelling) is None] == []


def test_every_abbreviation_that_the_parser_takes_is_refused(spellings: Spellings) -> None:
    taken = [each for each in spellings.of_owned if spellings.takes(each)]
    assert "--max-m" in taken
    assert "--ma" not in taken
    assert [each for each in taken if owned_flag(each) is None] == []


@pytest.mark.parametrize("argument", GLUED)
def test_a_value_in_the_same_word_hides_no_flag(spellings: Spellings, argument: str) -> None:
    result = spellings.answers[argument]
    assert isinstance(result, Accepted), result
    assert isinstance(spellings.plain, Accepted)
    assert result.values[GLUED[argument]] != spellings.plain.values[GLUED[argument]]
    assert owned_flag(argument) is not None


def test_no_other_flag_is_refused_but_those_with_a_reason(spellings: Spellings) -> None:
    free = {spelling: option for spelling, option in spellings.option_of.items() if option not in spellings.owned}
    refused = {option for spelling, option in free.items() if owned_flag(spelling)}
    assert refused == set(REFUSED_WITH_A_FAMILY)


def test_no_abbreviation_of_another_flag_is_refused_but_those_with_a_reason(spellings: Spellings) -> None:
    families = tuple(spelling for option in REFUSED_WITH_A_FAMILY for spelling in spellings.by_option.get(option, ()))
    refused = {each for each in spellings.of_free if spellings.takes(each)}
    assert {each for each in refused if not any(name.startswith(each) for name in families)} == set(SHARED)


def test_the_api_servers_rule_refuses_the_same(spellings: Spellings) -> None:
    spec = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rules = spec["properties"]["engine"]["x-kubernetes-validations"]
    (rule,) = (each for each in rules if each.get("fieldPath") == ".extraArgs" and "'vllm'" in each["rule"])
    found = re.search(r"matches\(r'(.*)'\)", rule["rule"])
    assert found is not None
    admission = re.compile(found[1])
    every = {*spellings.option_of, *spellings.answers}
    assert [each for each in sorted(every) if bool(admission.search(each)) != (owned_flag(each) is not None)] == []
