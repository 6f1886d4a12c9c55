"""``plimsoll estimate``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from plimsoll.cli.answers.api_words import api_answer
from plimsoll.cli.answers.bars import print_answers, print_api, print_engines, print_one, print_working
from plimsoll.cli.answers.engines import on_its_engine, two_engines
from plimsoll.cli.answers.estimate_json import document_of
from plimsoll.cli.answers.learned import taught_question, with_lesson_notes
from plimsoll.cli.answers.rows import AnsweredQuestion, answered
from plimsoll.cli.cluster.teachers import Lessons, Teachers, with_teachers
from plimsoll.cli.later import command_of_file, lessons_of, manifest_question, written_manifest
from plimsoll.cli.options import complete_model, option, output
from plimsoll.cli.questions.api_price import with_api
from plimsoll.cli.questions.asked import EstimateQuestion, TypedOptions
from plimsoll.cli.questions.direct import direct_question
from plimsoll.cli.questions.names import meant_types, named
from plimsoll.cli.questions.other_engine import with_other_engine
from plimsoll.cli.reading.files import STDIN
from plimsoll.cli.screen import print_document, print_lines, say, screen
from plimsoll.cli.starts.start_question import start_question
from plimsoll.cli.starts.started import default_notes
from plimsoll.cli.starts.written_commands import Written, command_in, example, readers
from plimsoll.domain.decisions.outcomes import Fit, Split
from plimsoll.domain.engines.engine_choice import SpeculationMethod
from plimsoll.domain.errors import InvalidInput
from plimsoll.placement.options.sizing import Sized

_PROGRAM_WORDS = 3
"""The most words of a program that starts a server, such as ``-m MODULE serve``."""


class _Estimate(click.Command):
    """A command whose MODEL may be a command line: what follows its first word is none of our options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Write the ``--`` that people leave out in front of such a command."""
        pieces = (args[index : index + _PROGRAM_WORDS] for index in range(len(args)))
        found = [any(each.arguments(piece) is not None for each in readers().values()) for piece in pieces]
        # The last of several beginnings in a row is the program itself: words before it may be our own.
        starts = (index for index, here in enumerate(found) if here and not any(found[index + 1 : index + 2]))
        first = None if "--" in args else next(starts, None)
        return super().parse_args(ctx, args if first is None else [*args[:first], "--", *args[first:]])


@click.command("estimate", cls=_Estimate)
@click.argument("words", nargs=-1, metavar="MODEL | -- COMMAND...", shell_complete=complete_model)
@option("--filename", note="A manifest or a Compose file whose server is meant.")
@option("--gpu", "gpus", note="Default: all.", multiple=True)
@option("--tp")
@option("--pp", default=1, show_default=True)
@option("--ep")
@option("--dp", default=1, show_default=True)
@option("--context-length", note="Default: 8192, or the model's own.")
@option("--concurrency")
@option("--prompt", note="Sizes for the expected load, whatever a manifest's sizing.")
@option("--output-tokens")
@option("--shared-prefix")
@option("--shared-percent")
@option("--precision")
@option("--kv-precision")
@option("--engine")
@option("--utilization")
@option("--batched-tokens")
@option("--max-num-seqs")
@option("--eager")
@option("--text-only")
@option("--cpu-offload")
@option("--host-memory")
@option("--lora")
@option("--speculate", words=[method.value for method in SpeculationMethod])
@option("--draft")
@option("--against-engine")
@option("--against-price")
@option("--requests-per-day")
@option("--busy-hours")
@option("--startup", note="Default: 300.")
@option("--why")
@output("table", "json", "manifest")
@with_teachers
def command(
    words: tuple[str, ...],
    filename: str | None,
    gpus: tuple[str, ...],
    tp: int | None,
    pp: int,
    ep: bool,  # noqa: FBT001 - a flag of the command line
    dp: int,
    why: bool,  # noqa: FBT001 - same
    form: str,
    teachers: Teachers,
    **options: Any,
) -> None:
    """Say what MODEL (a name, a page of the Hub, a checkpoint folder, a config.json, a manifest) needs on each GPU.

    Or say whether a server starts as given, and which KV cache it gets: `plimsoll estimate -- vllm serve MODEL ...`,
    or `plimsoll estimate -f pod.yaml`. With -o manifest it prints the InferenceDeployment that asks for the same.
    """
    meant = meant_types(gpus)
    split = None if tp is None else Split(tp, pp, dp, expert_parallel=ep or dp > 1)
    asked = TypedOptions(gpus=meant.types, split=split, **options)
    if tp is None and (pp > 1 or ep or dp > 1):
        raise InvalidInput(*_alone(pp, dp, ep=ep), "Name --tp as well.")
    question = _question(words, filename, asked)
    question = with_api(replace(question, notes=(*meant.notes, *question.notes)), asked)
    if form == "manifest":
        without = "A manifest does not compare with an API: --against-price is left out."
        one = "A manifest is about one engine: --against-engine is left out."
        left_out = (None if question.api is None else without, None if asked.against_engine is None else one)
        say("note", (*question.notes, *left_out))
        click.echo(written_manifest(_source(words, filename, question), asked, question), nl=False)
        return
    lessons = lessons_of(teachers) if teachers.are_asked else Lessons()
    question = on_its_engine(taught_question(question, lessons))
    question = with_other_engine(
        question, asked, lambda other: taught_question(_question(words, filename, other), lessons)
    )
    answer = answered(question)
    answer = _with_defaults(with_lesson_notes(answer, lessons) if teachers.are_asked else answer)
    if why and len(answer.shown) != 1:
        raise InvalidInput("--why", f"{len(answer.shown)} GPU types", "Name one GPU type with --gpu.")
    if form == "json":
        print_document(form, document_of(answer, why=why))
    else:
        _show_answers(answer, why=why)


def _source(words: tuple[str, ...], filename: str | None, question: EstimateQuestion) -> str:
    """Return the source of a manifest: the model or the manifest that is named."""
    source = filename if filename is not None and not words else words[0] if len(words) == 1 else ""
    if question.command is not None or source in ("", STDIN):
        fix = "A command, and what is piped in, become no manifest: name a model, a config.json or a manifest."
        raise InvalidInput("-o", "manifest", fix)
    return named(source).source


def _question(words: tuple[str, ...], filename: str | None, asked: TypedOptions) -> EstimateQuestion:
    model = words[0] if len(words) == 1 else None
    if filename is not None:
        if len(words) > 1:
            raise InvalidInput("-f", filename, "It has the command already: name a model at most, or leave -f out.")
        read = command_of_file(filename)
        if isinstance(read, Written):
            return start_question(read, asked, model)
        if model is not None:
            raise InvalidInput("MODEL", model, f"{filename} has a model of its own: leave MODEL or -f out.")
        return replace(manifest_question("", asked, read), gpus=asked.gpus, split=asked.split)
    written = command_in(words)
    if written is not None:
        return start_question(written, asked, None)
    if model is None:
        raise InvalidInput("MODEL", " ".join(words), f"Name a model, -f FILE, or a command: -- {example()}")
    source = named(model)
    question = direct_question(source.source, asked) or manifest_question(source.source, asked)
    return replace(question, notes=(*source.notes, *question.notes), gpus=asked.gpus, split=asked.split)


def _with_defaults(answer: AnsweredQuestion) -> AnsweredQuestion:
    """Name the settings that a command leaves to its engine. They differ between GPU types."""
    question, rows = answer.question, answer.shown
    if not question.request.engine.own_defaults:
        return answer
    first, unfollowed = rows[0].answer if len(rows) == 1 else None, question.request.engine.unfollowed
    # The details of a single type name what has no law among the doubts.
    no_law = () if len(rows) == 1 or not unfollowed else (f"The memory law does not include {', '.join(unfollowed)}.",)
    said = default_notes(question.request, first.settings) if isinstance(first, Sized) else ()
    options = (_OTHER_NAMES,) if any(row.fit is not Fit.SURE for row in rows) else ()
    return replace(answer, question=replace(question, notes=(*question.notes, *no_law, *said, *options)))


_OTHER_NAMES = (
    "Changes are given as options of `plimsoll estimate`. In the command, --context-length is --max-model-len, "
    "--precision is --quantization, --kv-precision is --kv-cache-dtype, --concurrency is no option, and --tp, --pp, "
    "--dp and --ep are the degrees of parallelism."
)


def _alone(stages: int, engines: int, *, ep: bool) -> tuple[str, object]:
    if ep:
        return "--ep", ep
    return ("--dp", engines) if engines > 1 else ("--pp", stages)


def _show_answers(answer: AnsweredQuestion, *, why: bool) -> None:
    request, rows = answer.question.request, answer.shown
    console = screen()
    print_answers(console, request, rows, answer.split)
    print_lines(console, (f"Note: {note}" for note in answer.notes))
    api = [each for row in rows if (each := api_answer(answer.question, row)) is not None]
    engines = [found for row in rows if (found := two_engines(answer, row)) is not None]
    if len(rows) == 1:
        print_one(console, request, rows[0], answer.split)
        print_lines(console, (line for each in engines for line in each.sentences()))
        print_lines(console, (line for each in api for line in each.sentences()))
        if why and isinstance(rows[0].answer, Sized):
            print_working(console, rows[0].answer)
        return
    if engines:
        print_engines(console, engines)
    if api:
        print_api(console, api)
