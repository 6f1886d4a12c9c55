"""Every line of ``plimsoll estimate --why`` has words and numbers, for all catalogued models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from math import prod

from plimsoll.adapters.catalog import catalogued_models, load_model_facts
from plimsoll.cli.answers.cache_words import cache_sentence
from plimsoll.cli.questions.asked import TypedOptions
from plimsoll.cli.questions.direct import direct_question
from plimsoll.cli.questions.types import answers
from plimsoll.domain.decisions.outcomes import MemoryEstimate
from plimsoll.domain.decisions.terms import KV_CACHE, CacheLoad, Term
from plimsoll.domain.requests.serving import Request
from plimsoll.domain.units import GIB, MIB, ceil_div
from plimsoll.engines.vllm.memory.kv_cache.rank_cache import rank_layout
from plimsoll.placement.options.sizing import Sized
from tests.support.tables import every_case

GPUS = ("h100-sxm-80gb", "b200-sxm-180gb", "a100-sxm-80gb", "mi300x-192gb", "rtx-4090-24gb")
RELEASES = ("0.32.0", "0.33.0", "0.19.1")
LOADS = ((8192, 16), (777, 1), (32_768, 3), (131_072, 2))

_COUNTED = re.compile(r"^(?:(\d+) layers x )?((?:[\d,]+ x )+)([\d.]+) bit(?: \(|$)")
"""A weight without scales: layers, matrices and their sides, and bits."""


every_model = every_case(
    "name",
    catalogued_models(),
    most=24,
    # Windows; an order of experts of a kernel's own; sparse and latent caches; layers with a state.
    always=("google/gemma-3-27b-it", "openai/gpt-oss-120b", "deepseek-ai/DeepSeek-V4-Flash", "moonshotai/Kimi-K3"),
)


@cache
def asked(name: str, context: int, requests: int, release: str) -> Request | None:
    facts = load_model_facts(name)
    assert facts is not None
    longest = facts.max_context_tokens if facts.names_context else context
    asked = TypedOptions(context_length=min(context, longest), concurrency=requests, engine=release)
    found = direct_question(name, asked)
    return None if found is None else found.request


@cache
def sized(name: str, context: int, requests: int, release: str) -> tuple[Sized, ...]:
    """The answers on each of the types where there is an estimate."""
    request = asked(name, context, requests, release)
    assert request is not None
    return tuple(each for each in answers(request, GPUS, None) if isinstance(each, Sized))


def terms(name: str) -> Iterator[tuple[str, Term]]:
    for release in RELEASES:
        for answer in sized(name, *LOADS[0], release):
            for term in answer.figures.summands:
                yield f"{answer.gpu.name} {answer.split} {release} {term.name.title}", term


@every_model
def test_lines_add_up_to_their_term(name: str) -> None:
    for where, term in terms(name):
        lines = term.derive().lines
        assert not term.size_bytes or lines, where
        assert sum(line.size_bytes or 0 for line in lines) == term.size_bytes, where


@every_model
def test_no_line_is_a_rest_without_words(name: str) -> None:
    for where, term in terms(name):
        for line in term.derive().lines:
            assert re.search("[a-z]{3}", f"{line.label} {line.formula}"), (where, line)
            assert not re.search(r"\b(other|rest|layout|miscellaneous)\b", line.label.replace("other graphs", "")), line
            if abs(line.size_bytes or 0) >= MIB and term.name.key != "overhead":
                assert re.search(r"\d", line.formula), (where, line)


@every_model
def test_weights_multiply_to_the_bytes_beside_them(name: str) -> None:
    multiplied = 0
    for where, term in terms(name):
        if term.name.key != "weights":
            continue
        for line in term.derive().lines:
            found = _COUNTED.match(line.formula)
            if found is None or "scales" in line.formula:
                continue
            sides = prod(int(side.replace(",", "")) for side in found[2].removesuffix(" x ").split(" x "))
            assert int(found[1] or 1) * sides * float(found[3]) / 8 == line.size_bytes, (where, line)
            multiplied += 1
    assert multiplied


@every_model
def test_the_cache_in_words_multiplies_to_the_cache(name: str) -> None:
    for context, requests in LOADS:
        for answer in sized(name, context, requests, RELEASES[0]):
            request = asked(name, context, requests, RELEASES[0])
            assert request is not None
            if not request.model.keeps_cache:
                assert answer.figures.kv_cache_bytes == 0
                continue
            load = load_of(answer.figures)
            layout = rank_layout(request, answer.gpu, answer.split, answer.settings, answer.figures.stage)
            assert load.total_bytes == answer.figures.kv_cache_bytes
            assert ceil_div(load.percent * load.requests * load.request_bytes, 100) + layout.block_bytes == (
                load.total_bytes
            )
            parts = 2 if load.of_steps else 1
            rounding = parts * layout.block_bytes * sum(group.count for group in layout.groups if group.grows)
            assert 0 <= load.growing_bytes - load.tokens * load.growing_bytes_per_token <= rounding
            assert_printed(answer.figures, load, rounding, layout.block_bytes)


def load_of(figures: MemoryEstimate) -> CacheLoad:
    (found,) = [term.derive().cache for term in figures.terms if term.name == KV_CACHE]
    assert found is not None
    return found


def assert_printed(figures: MemoryEstimate, load: CacheLoad, rounding: int, block_bytes: int) -> None:
    """Multiply the figures that a reader sees."""
    said = cache_sentence(figures)
    head = re.match(r"KV cache: (?:([\d.]+) x )?(?:([\d,]+) requests? of )?([\d,]+) tokens takes? ([\d.]+) GiB", said)
    assert head is not None, said
    assert (head[2] is None) is load.of_steps
    factor, requests = float(head[1] or 1), number(head[2] or "1")
    each = re.search(r"([\d,]+) bytes a token", said)
    bounded = re.search(r"([\d.]+) MiB in layers", said)
    one = number(head[3]) * number(each[1]) if each else 0.0
    one += float(bounded[1]) * MIB if bounded else 0.0
    # The cache in hundredths of a GiB, windows in tenths of a MiB, whole bytes a token, blocks that are not full.
    printed = 0.005 * GIB + factor * requests * (0.05 * MIB + number(head[3]) + rounding) + block_bytes
    assert abs(factor * requests * one - float(head[4]) * GIB) <= printed, said
    assert abs(load.total_bytes - float(head[4]) * GIB) <= 0.0051 * GIB


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_windows_are_apart_from_what_grows() -> None:
    gemma = cache_sentence(sized("google/gemma-3-27b-it", 8192, 16, RELEASES[0])[0].figures)
    assert "in layers with full attention, and" in gemma
    plain = cache_sentence(sized("Qwen/Qwen3-8B", 8192, 16, RELEASES[0])[0].figures)
    assert plain == "KV cache: 16 requests of 8,192 tokens take 18.00 GiB of each GPU: 147,456 bytes a token."


def test_a_kernel_s_own_order_of_experts_is_named_with_both_sizes() -> None:
    (hopper,) = [each for each in sized("openai/gpt-oss-120b", *LOADS[0], RELEASES[0]) if each.gpu.name == GPUS[0]]
    lines = {line.label: line for line in hopper.figures.terms[0].derive().lines}
    assert lines["order of experts"].formula == (
        "the kernel of this GPU keeps the experts in 60,914,073,600 B (widths in steps of 64), "
        "not in the 66,418,900,992 B above"
    )
    assert lines["order of experts"].size_bytes == 60_914_073_600 - 66_418_900_992
    assert "padded from 2,880 x 2,880" in lines["mlp.experts.up_proj"].formula
