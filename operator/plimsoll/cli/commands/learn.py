"""``plimsoll learn``."""

from __future__ import annotations

import click

from plimsoll.cli.later import saved_observation
from plimsoll.cli.options import option, output
from plimsoll.cli.screen import print_document, screen
from plimsoll.cli.starts.logged_start import MOST_BYTES, MOST_LINES, LogFile, NamedStart, logged_start
from plimsoll.cli.starts.start_answers import lesson_document, print_lesson
from plimsoll.cli.starts.start_lesson import Lesson, lesson_of
from plimsoll.domain.errors import InvalidInput, PlimsollError
from plimsoll.domain.units import MIB
from plimsoll.engines.registry import ENGINES
from plimsoll.engines.starts import StartLog


@click.command("learn")
@click.argument("log")
@option("--model", note="Default: the one of the log.")
@option("--gpu", note="If the log does not say it.")
@option("--engine", note="Default: the one of the log.")
@option("--utilization", note="Default: the one of the log.")
@option("--save", note="The observation is added to it, for `plimsoll estimate --observations`.")
@output("table", "json")
def command(
    log: str,
    model: str | None,
    gpu: str | None,
    engine: str | None,
    utilization: int | None,
    save: str | None,
    form: str,
) -> None:
    """Compare the start-up LOG of an engine (a file, or - for standard input) with the estimate, and learn from it.

    For example: kubectl logs POD | plimsoll learn - --gpu h100-sxm-80gb
    """
    file = LogFile(log)
    start = logged_start(_read(file), NamedStart(model, gpu, engine, utilization))
    lesson = lesson_of(start)
    notes = [*start.notes, *_cut_note(file)]
    if save is not None:
        notes.append(_saved(save, lesson))
    if form == "json":
        print_document(form, lesson_document(start, lesson, notes))
    else:
        print_lesson(screen(), start, lesson, notes)


def _read(file: LogFile) -> StartLog:
    """Return the last start of a file. Raises :class:`PlimsollError` if it is no log of an engine."""
    readers = {each.title: each.start_logs for each in ENGINES.values() if each.start_logs is not None}
    kept = {title: reader.last_start() for title, reader in readers.items()}
    for number, line in enumerate(file.lines()):
        for each in kept.values():
            each.add(number, line)
    starts = [(kept[title].began, start) for title, each in readers.items() if (start := each.read(kept[title].lines))]
    if not starts:
        raise PlimsollError(
            f"This is no start-up log of {' or '.join(readers)}: none of its lines begins a start of theirs. Give the "
            "log from its first line on, e.g. `kubectl logs POD | plimsoll learn -`."
        )
    return max(starts, key=lambda each: each[0])[1]


def _cut_note(file: LogFile) -> tuple[str, ...]:
    limits = f"{MOST_BYTES // MIB} MiB or {MOST_LINES:,} lines"
    return (f"The log is longer than what is read of it: its first {limits}.",) if file.is_cut else ()


def _saved(save: str, lesson: Lesson | str) -> str:
    """Save the observation, and say so. Raises :class:`InvalidInput` if there is none, or no usable file."""
    if isinstance(lesson, str):
        raise InvalidInput("--save", save, f"There is no observation to save. {lesson}")
    count = saved_observation(save, lesson.observation)
    return f"Saved in {save}, which holds {count} now: use it with `plimsoll estimate --observations {save}`."
