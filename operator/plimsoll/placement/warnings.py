"""What an admin's override costs, said beside the choice that it forced."""

from __future__ import annotations

from plimsoll.domain.outcomes import Choice
from plimsoll.domain.serving import Request
from plimsoll.domain.units import format_gib


def warnings_for(request: Request, choice: Choice) -> tuple[str, ...]:
    """One sentence per consequence; empty where nothing was forced."""
    overrides = request.overrides
    told: list[str] = []
    if overrides.gpu_type is not None or overrides.tensor_parallel is not None:
        told.append(
            f"GPU type and split were forced to {choice.gpu.name} x {choice.split.tensor_parallel}: "
            "cheaper candidates were not considered."
        )
    if overrides.memory_per_gpu_bytes is not None:
        told.append(_memory_warning(choice))
    context = request.model.max_context_tokens
    if request.shape.context_tokens > context:
        told.append(
            f"contextLength {request.shape.context_tokens} exceeds the {context} tokens that the model declares: "
            "the engine refuses unless the checkpoint scales its positions."
        )
    return tuple(told)


def _memory_warning(choice: Choice) -> str:
    figures = choice.estimate
    difference = figures.computed_bytes - figures.needed_bytes
    verdict = (
        f"by the computed need the GPU is short of {format_gib(figures.computed_bytes - figures.budget_bytes)}: "
        "expect the engine to fail at start or to hold fewer tokens than declared."
        if figures.computed_bytes > figures.budget_bytes
        else "the computed need fits too."
    )
    return (
        f"memoryPerGpu {format_gib(figures.needed_bytes)} replaces the computed {format_gib(figures.computed_bytes)} "
        f"({'-' if difference > 0 else '+'}{format_gib(abs(difference))}); {verdict}"
    )
