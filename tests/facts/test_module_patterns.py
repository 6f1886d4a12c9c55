"""Patterns of module names: they match what Python's own engine matches, and never take long."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll.facts.models.quantization.module_list import Module, module_list, module_of, parse_name
from plimsoll.facts.models.quantization.patterns import (
    OutsideSubsetError,
    TooComplexError,
    regular_expression,
    wildcard,
)
from tests.support.tables import every_case, examples
from tests.support.work import measured_effort

NAMES = [
    "lm_head",
    "model.layers.0.self_attn.q_proj",
    "model.layers.1.self_attn.qkv_proj",
    "model.layers.12.self_attn.o_proj",
    "model.layers.3.mlp.gate_proj",
    "model.layers.3.mlp.gate",
    "model.layers.40.mlp.experts.0.down_proj",
    "model.layers.7.mlp.shared_expert.up_proj",
    "model.layers.59.linear_attn.in_proj_qkvz",
]
PATTERNS = [
    r".*self_attn.*",
    r".*mlp.gate$",
    r".*layers\.(0|1|2)\..*",
    r"model\.layers\.\d+\.mlp\.(gate|up|gate_up|down)_proj.*",
    r"^model\.layers\.[0-9]+\.self_attn\.(q|k|v|o)_proj$",
    r"(?!.*(lm_head|shared_expert)).*",
    r".*layers\.(?!0\.|1\.)\d+\.self_attn.*",
    r"^(?!model\.layers\.0\.).*proj$",
    r"lm_head|.*gate$",
    r".*\.(?:1[0-9]|[3-5][0-9])\..*",
    r".*[qkv]_proj",
    r".*[^.]+_proj$",
    r"model\.layers\.\d{1,2}\.mlp\.experts\.\d+\..+",
    r".*down_proj|.*(up|gate)_proj$",
    r".*(?=in_proj).*z$",
    r"model.layers.(3|7)",
]


@every_case("pattern", PATTERNS)
def test_regular_expressions_match_what_the_engine_s_matcher_matches(pattern: str) -> None:
    compiled = regular_expression(pattern)
    expected = [name for name in NAMES if re.match(pattern, name)]
    assert [name for name in NAMES if compiled.matches(name)] == expected
    assert 0 < len(expected) < len(NAMES)


@pytest.mark.parametrize("pattern", ["*self_attn*", "*.gate", "model.layers.?.mlp.*", "*layers.[0-3].*", "lm_head*"])
def test_wildcards_match_as_in_a_shell(pattern: str) -> None:
    compiled = wildcard(pattern)
    expected = [name for name in NAMES if fnmatch.fnmatchcase(name, pattern)]
    assert [name for name in NAMES if compiled.matches(name)] == expected
    assert expected


def test_a_wildcard_for_a_module_takes_what_is_below_it() -> None:
    compiled = wildcard("model.layers.*.self_attn")
    assert [name for name in NAMES if compiled.matches(name)] == [name for name in NAMES if "self_attn" in name]
    assert not compiled.matches("model.layers.0.self_attention")


@every_case(
    "pattern",
    [
        r"(a)\1",
        r"(?<=a)b",
        r"(?i)lm_head",
        r"\bgate\b",
        r"a*+b",
        r"(a",
        r"a)",
        r"[a",
        r"[[a]",
        r"[+--]",
        r"[z-a]",
        r"a{2",
        r"a{1,99}",
        r"a$b",
        r"(?P<x>a)",
        r"(a(?!b)|c)d",
        "(" * 20 + "a" + ")" * 20,
        "a" * 500,
        "+",
    ],
)
def test_what_is_not_translated_is_refused(pattern: str) -> None:
    with pytest.raises(OutsideSubsetError):
        regular_expression(pattern)


@every_case(
    ("pattern", "answer"),
    [
        ("(a+)+$", False),
        ("(a*)*b", False),
        ("(.*)*x", False),
        ("(a|aa)+$", False),
        ("a?" * 60 + "a" * 60, True),
        (".*a" * 40, True),
    ],
)
def test_no_pattern_chooses_how_long_matching_takes(pattern: str, *, answer: bool) -> None:
    """Most of these keep a backtracking matcher busy for longer than anybody waits."""
    with measured_effort() as spent:
        assert regular_expression(pattern).matches("a" * 100 + "!") is answer
    assert spent.amount < 30


def test_a_pattern_that_unfolds_without_end_is_given_up() -> None:
    """An automaton for "an a, twelve characters before the end" has to remember twelve characters."""
    compiled = regular_expression("(a|b)*a" + "(a|b)" * 12 + "$")
    texts = (format(number, "016b").replace("0", "a").replace("1", "b") for number in range(0, 2**16, 7))
    with pytest.raises(TooComplexError):
        list(map(compiled.matches, texts))


ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\.", "\\d", "(a|b)", "(?:ab|c)", "(ab?)"])
PIECES = st.tuples(ATOMS, st.sampled_from(["", "*", "+", "?", "{2}", "{0,2}", "*?"])).map("".join)
SEQUENCES = st.tuples(st.sampled_from(["", "^", "(?!ab)", "(?!a|b$)", "(?=a)"]), st.lists(PIECES, max_size=4))
EXPRESSIONS = st.lists(
    st.tuples(SEQUENCES, st.sampled_from(["", "$"])).map(lambda drawn: drawn[0][0] + "".join(drawn[0][1]) + drawn[1]),
    min_size=1,
    max_size=2,
).map("|".join)


@settings(max_examples=examples(200), deadline=None)
@given(pattern=EXPRESSIONS, text=st.text(alphabet="abc.1", max_size=7))
def test_the_translated_subset_means_the_same(pattern: str, text: str) -> None:
    assert regular_expression(pattern).matches(text) is (re.match(pattern, text) is not None)


@settings(max_examples=examples(150))
@given(text=st.text(alphabet="ab.*+?()[]{}|^$\\!=:,0-9d", max_size=60))
def test_any_text_is_a_pattern_or_refused_and_soon(text: str) -> None:
    with measured_effort() as spent:
        for read in (regular_expression, wildcard):
            try:
                answer = read(text).matches("model.layers.0.self_attn.q_proj")
            except (OutsideSubsetError, TooComplexError):
                continue
            assert answer in {True, False}
    assert spent.amount < 1000


@every_case(
    ("name", "module"),
    [
        ("model.layers.3.self_attn.q_proj", Module(3, ("self_attn", "q_proj"))),
        ("model.language_model.layers.3.mlp.gate", Module(3, ("mlp", "gate"))),
        ("language_model.model.layers.0", Module(0, ())),
        ("transformer.h.11.attn.c_proj", Module(11, ("self_attn", "c_proj"))),
        ("layers.0.ffn.experts", Module(0, ("mlp", "experts"))),
        ("model.layers.0.block_sparse_moe.experts.7.w2", Module(0, ("mlp", "experts", "0", "down_proj"))),
        ("model.layers.0.mlp.shared_experts.up_proj.weight", Module(0, ("mlp", "shared_expert", "up_proj"))),
        (
            "vision_tower.encoder.layers.0.mlp.fc1",
            Module(None, ("vision_tower", "encoder", "layers", "0", "mlp", "fc1")),
        ),
        ("mtp.layers.0.mlp", Module(None, ("mtp", "layers", "0", "mlp"))),
        ("language_model.lm_head", Module(None, ("lm_head",))),
        ("model.layers.99999999999.mlp", Module(None, ("layers", "99999999999", "mlp"))),
    ],
)
def test_names_are_brought_to_one_spelling(name: str, module: Module) -> None:
    assert parse_name(name) == module


def test_a_weight_of_the_facts_has_the_same_spelling() -> None:
    assert module_of(2, "mlp.experts.gate_proj") == parse_name("model.layers.2.mlp.experts.17.gate_proj")


def test_a_name_behind_anything_has_the_same_spelling() -> None:
    """Llama 4 Maverick in FP8 leaves its dense layers alone: ``re:.*feed_forward.gate_proj``."""
    left = module_list("llama", ("re:.*feed_forward.gate_proj", "re:.*attn"))
    assert left.covers(module_of(0, "mlp.gate_proj"))
    assert not left.covers(module_of(1, "mlp.experts.gate_proj"))
    assert left.covers(module_of(0, "linear_attn"))
