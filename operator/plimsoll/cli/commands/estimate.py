"""``plimsoll estimate``."""

from __future__ import annotations

from dataclasses import replace

import click

from plimsoll.cli.answered import Answered, answered
from plimsoll.cli.asked import Asked
from plimsoll.cli.bars import print_answers, print_one
from plimsoll.cli.direct import direct_question
from plimsoll.cli.estimate_json import documents_of
from plimsoll.cli.gpu_names import meant_types
from plimsoll.cli.later import manifest_question
from plimsoll.cli.learned import learned_answers
from plimsoll.cli.model_names import named
from plimsoll.cli.screen import screen
from plimsoll.cli.teachers import Teachers, with_teachers
from plimsoll.cli.working import print_working
from plimsoll.domain.engine_options import SpeculationMethod
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.outcomes import Split
from plimsoll.placement.sizing import Sized


@click.command("estimate")
@click.argument("model")
@click.option(
    "--gpu",
    "gpus",
    multiple=True,
    help="GPU type (`plimsoll gpus`), or its name as drivers print it; may be repeated. Default: all.",
)
@click.option("--tp", type=click.IntRange(1, 64), help="Tensor-parallel degree. Default: the fewest GPUs that fit.")
@click.option("--pp", type=click.IntRange(1, 64), default=1, show_default=True, help="Pipeline stages, with --tp.")
@click.option("--ep", is_flag=True, help="Expert parallelism, with --tp.")
@click.option(
    "--dp", type=click.IntRange(1, 64), default=1, show_default=True, help="Engines that share experts, with --tp."
)
@click.option("--context", type=click.IntRange(1), help="Longest request in tokens. Default: 8192, or the model's own.")
@click.option("--concurrency", type=click.IntRange(1), help="Requests at the same time. Default: 16.")
@click.option(
    "--prompt",
    type=click.IntRange(1),
    help="Mean prompt tokens, with --output-tokens: sizes for the expected load, whatever a manifest's sizing.",
)
@click.option("--output-tokens", type=click.IntRange(1), help="Mean output tokens, with --prompt.")
@click.option("--precision", help="Weights: auto, bf16, fp16, fp8, ...")
@click.option(
    "--kv-precision", help="KV cache: auto, bf16, fp16, fp8, nvfp4, int8, int4, fp8_per_token_head, turboquant_*."
)
@click.option("--engine", help="Release of the engine, e.g. 0.32.0.")
@click.option("--utilization", type=click.IntRange(10, 98), help="Percent of usable memory the engine may take.")
@click.option("--batched-tokens", type=click.IntRange(64), help="Tokens of an engine step.")
@click.option("--eager", is_flag=True, help="No CUDA graphs.")
@click.option("--text-only", is_flag=True, help="Without the vision or audio tower.")
@click.option("--cpu-offload", help="Weights of each GPU to keep in host memory, e.g. 8Gi.")
@click.option("--lora", type=(int, int), help="LoRA slots and their largest rank, e.g. --lora 4 16.")
@click.option(
    "--speculate",
    type=(click.Choice([method.value for method in SpeculationMethod], case_sensitive=False), click.IntRange(1, 32)),
    help="Speculative decoding: method and tokens a step, e.g. --speculate Ngram 4.",
)
@click.option("--draft", help="The head or small model of --speculate Eagle or Draft: a name or a config.json.")
@click.option("--why", is_flag=True, help="Show every formula with its numbers (for one GPU type).")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table")
@with_teachers
def command(
    model: str,
    gpus: tuple[str, ...],
    tp: int | None,
    pp: int,
    ep: bool,  # noqa: FBT001 - a flag of the command line
    dp: int,
    context: int | None,
    concurrency: int | None,
    prompt: int | None,
    output_tokens: int | None,
    precision: str | None,
    kv_precision: str | None,
    engine: str | None,
    utilization: int | None,
    batched_tokens: int | None,
    eager: bool,  # noqa: FBT001 - same
    text_only: bool,  # noqa: FBT001 - same
    cpu_offload: str | None,
    lora: tuple[int, int] | None,
    speculate: tuple[str, int] | None,
    draft: str | None,
    why: bool,  # noqa: FBT001 - same
    output: str,
    teachers: Teachers,
) -> None:
    """Say what MODEL (a name, a page of the Hub, a checkpoint folder, a config.json, a manifest) needs on each GPU."""
    meant = meant_types(gpus)
    gpus = meant.types
    asked = Asked(
        context=context,
        concurrency=concurrency,
        precision=precision,
        kv_precision=kv_precision,
        engine=engine,
        utilization=utilization,
        batched_tokens=batched_tokens,
        prompt=prompt,
        output=output_tokens,
        eager=eager,
        text_only=text_only,
        cpu_offload=cpu_offload,
        lora=lora,
        speculate=speculate,
        draft=draft,
        gpus=gpus,
        split=None if tp is None else Split(tp, pp, dp, expert_parallel=ep or dp > 1),
    )
    if tp is None and (pp > 1 or ep or dp > 1):
        raise InvalidInput(*_alone(pp, dp, ep=ep), "Name --tp as well.")
    source = named(model)
    question = direct_question(source.source, asked) or manifest_question(source.source, asked)
    question = replace(question, notes=(*source.notes, *meant.notes, *question.notes))
    question, found = learned_answers(question, gpus, asked.split, teachers)
    answer = answered(question, found, gpus, asked.split)
    if why and len(answer.shown) != 1:
        raise InvalidInput("--why", f"{len(answer.shown)} GPU types", "Name one GPU type with --gpu.")
    if output == "json":
        click.echo(documents_of(answer, why=why))
    else:
        _show_answers(answer, why=why)


def _alone(stages: int, engines: int, *, ep: bool) -> tuple[str, object]:
    """Return the option that needs ``--tp``, and its value."""
    if ep:
        return "--ep", ep
    return ("--dp", engines) if engines > 1 else ("--pp", stages)


def _show_answers(answer: Answered, *, why: bool) -> None:
    """Print the table, and for a single GPU type the details below it."""
    request, rows = answer.question.request, answer.shown
    console = screen()
    print_answers(console, request, rows, answer.split)
    for note in answer.notes:
        console.print(f"Note: {note}", highlight=False, markup=False)
    if len(rows) == 1:
        print_one(console, request, rows[0], answer.split)
        if why and isinstance(rows[0].answer, Sized):
            print_working(console, rows[0].answer)
