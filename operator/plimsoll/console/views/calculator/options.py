"""The options of the calculator: those of ``plimsoll estimate``, by the same names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from plimsoll.domain.engine_options import SpeculationMethod


class Kind(StrEnum):
    """The form of an option's value."""

    NUMBER = "number"
    TEXT = "text"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. ``least`` and ``most`` bound a number; ``default`` is shown where the form is empty."""

    name: str
    label: str
    help: str
    kind: Kind = Kind.TEXT
    least: int = 1
    most: int | None = None
    default: str = ""
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """The option as the command line writes it."""
        return f"--{self.name}"


def _number(name: str, label: str, text: str, default: str = "", least: int = 1, most: int | None = None) -> Option:
    return Option(name, label, text, Kind.NUMBER, least, most, default)


FIRST = (
    _number("context", "Context", "Longest request in tokens.", "8192, or the model's own"),
    _number("concurrency", "Requests at once", "Requests at the same time.", "16"),
    Option("precision", "Weights", "Format of the weights.", default="auto", choices=("bf16", "fp16", "fp8")),
    Option(
        "kv-precision",
        "KV cache",
        "Format of the KV cache.",
        default="auto",
        choices=("bf16", "fp16", "fp8", "nvfp4", "int8", "int4", "fp8_per_token_head"),
    ),
)
"""The options that most questions need."""

MORE = (
    _number("tp", "Tensor parallel", "GPUs that share each layer.", "the fewest that fit", most=64),
    _number("pp", "Pipeline stages", "With tensor parallel.", "1", most=64),
    _number("dp", "Engines", "Engines that share experts, with tensor parallel.", "1", most=64),
    Option("ep", "Expert parallelism", "Whole experts on each GPU, with tensor parallel.", Kind.FLAG),
    _number("prompt", "Mean prompt", "Tokens, with the mean output: sizes for the expected load."),
    _number("output-tokens", "Mean output", "Tokens, with the mean prompt."),
    _number("utilization", "Utilization", "Percent of usable memory that the engine may take.", "92", 10, 98),
    _number("batched-tokens", "Batched tokens", "Tokens of an engine step.", "by the GPU", 64),
    Option("engine", "Release", "Release of the engine.", default="0.32.0"),
    Option("cpu-offload", "CPU offload", "Weights of each GPU to keep in host memory, e.g. 8Gi."),
    Option("lora", "LoRA", "Slots and their largest rank, e.g. 4 16."),
    Option(
        "speculate",
        "Speculation",
        f"Method ({', '.join(SpeculationMethod)}) and tokens a step, e.g. Ngram 4.",
    ),
    Option("draft", "Draft model", "A catalogued model, for speculation with Eagle or Draft."),
    Option("eager", "No CUDA graphs", "Runs without CUDA graphs.", Kind.FLAG),
    Option("text-only", "Text only", "Without the vision or audio tower.", Kind.FLAG),
)
"""The other options."""

OPTIONS = {each.name: each for each in (*FIRST, *MORE)}
