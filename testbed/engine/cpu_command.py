"""What must change in a rendered command so that a CPU can run it? As little as possible, and every change is told.

The operator's arguments name a large model and GPUs. Served for a test are 2.5 million random numbers on a CPU. What
both can do stays exactly as rendered: served name, lengths, batch limits, memory fraction, data type, shutdown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testbed.engine.tiny_model import MAX_CONTEXT_TOKENS

CPU_BLOCK_TOKENS: Final = 128
"""Tokens per KV block of vLLM's CPU backend, unless ``--block-size`` says otherwise."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """What becomes of one option. ``becomes`` maps the rendered value to the used one; ``None`` leaves it out."""

    spellings: tuple[str, ...]
    becomes: Callable[[str], str | None]
    why: str
    takes_value: bool = True


@dataclass(frozen=True, slots=True)
class _Option:
    """One option as it stands in a command: its name, and its value if it has one."""

    name: str
    value: str | None

    def words(self) -> list[str]:
        return [self.name] if self.value is None else [self.name, self.value]


def for_cpu(
    argv: Sequence[str], *, model_dir: Path, port: int, host: str = "127.0.0.1", kv_blocks: int | None = None
) -> tuple[list[str], list[str]]:
    """Adapt rendered arguments (model first) to a CPU and the tiny model.

    ``kv_blocks`` shrinks the KV cache to that many blocks of 128 tokens, the reserved null block included, so that a
    few requests fill it.

    Returns:
        The adapted arguments, and one line per replacement, for a person.

    Raises:
        ValueError: the first argument is not a model.
    """
    if not argv or argv[0].startswith("-"):
        raise ValueError(f"arguments must begin with the model, as `vllm serve` reads them: {' '.join(argv)!r}")
    adapted = [str(model_dir)]
    told = [] if argv[0] == adapted[0] else [f"{argv[0]} -> {model_dir}: the tiny model with random weights"]
    rules = {name: rule for rule in _rules(_longest_context(kv_blocks)) for name in rule.spellings}
    for option in _options(argv[1:], rules):
        rule = rules.get(option.name)
        kept = option if rule is None else _apply(rule, option)
        if kept is not None:
            adapted += kept.words()
        if rule is not None and kept != option:
            told.append(f"{_shown(option)} -> {_shown(kept)}: {rule.why}")
    added, why = _additions(adapted, host=host, port=port, kv_blocks=kv_blocks)
    return adapted + added, told + why


def _longest_context(kv_blocks: int | None) -> int:
    if kv_blocks is None:
        return MAX_CONTEXT_TOKENS
    # One block is the null block, and the engine refuses to start if one longest request would not fit.
    return min(MAX_CONTEXT_TOKENS, (kv_blocks - 1) * CPU_BLOCK_TOKENS)


def _rules(longest_context: int) -> tuple[_Rule, ...]:
    one_device = "a CPU is one device"
    return (
        _Rule(("--tensor-parallel-size", "-tp"), lambda _: "1", one_device),
        _Rule(("--pipeline-parallel-size", "-pp"), lambda _: "1", one_device),
        _Rule(("--data-parallel-size", "-dp"), lambda _: "1", one_device),
        _Rule(("--decode-context-parallel-size", "-dcp"), lambda _: "1", one_device),
        _Rule(("--prefill-context-parallel-size", "-pcp"), lambda _: "1", one_device),
        _Rule(("--enable-expert-parallel", "-ep"), lambda _: None, "the tiny model has no experts", takes_value=False),
        _Rule(("--quantization", "-q"), lambda _: None, "the tiny model's weights are not quantized"),
        _Rule(("--kv-cache-dtype",), lambda _: "auto", "an 8-bit KV cache needs vector units not every CPU has"),
        _Rule(("--cpu-offload-gb",), lambda _: None, "there is no GPU to offload from"),
        _Rule(("--load-format",), lambda _: None, "there are no weight files"),
        _Rule(("--host",), lambda _: None, "the test's own address"),
        _Rule(("--port",), lambda _: None, "the test's own port"),
        _Rule(
            ("--max-model-len",),
            lambda tokens: str(min(int(tokens), longest_context)),
            f"{longest_context} tokens are what the tiny model and its KV cache can hold",
        ),
    )


def _options(words: Sequence[str], rules: dict[str, _Rule]) -> list[_Option]:
    options: list[_Option] = []
    position = 0
    while position < len(words):
        name, equals, value = words[position].partition("=")
        position += 1
        if equals:
            options.append(_Option(name, value))
        elif _has_value(name, words[position : position + 1], rules):
            options.append(_Option(name, words[position]))
            position += 1
        else:
            options.append(_Option(name, None))
    return options


def _has_value(name: str, following: Sequence[str], rules: dict[str, _Rule]) -> bool:
    rule = rules.get(name)
    if rule is not None:
        return rule.takes_value and bool(following)
    return bool(following) and not following[0].startswith("-")


def _apply(rule: _Rule, option: _Option) -> _Option | None:
    value = rule.becomes(option.value or "")
    return None if value is None else _Option(option.name, value)


def _shown(option: _Option | None) -> str:
    return "left out" if option is None else " ".join(option.words())


def _additions(adapted: Sequence[str], *, host: str, port: int, kv_blocks: int | None) -> tuple[list[str], list[str]]:
    added = ["--host", host, "--port", str(port), "--load-format", "dummy"]
    told = [f"added --host {host} --port {port}", "added --load-format dummy: random weights, no files"]
    if "--enforce-eager" not in adapted:
        added.append("--enforce-eager")
        told.append("added --enforce-eager: no compilation, the server is up sooner")
    if kv_blocks is not None:
        added += ["--num-gpu-blocks-override", str(kv_blocks)]
        told.append(f"added --num-gpu-blocks-override {kv_blocks}: a KV cache that a few requests fill")
    return added, told
