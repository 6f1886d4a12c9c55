"""Commands of the command line in processes of their own: bounded, ended with their question, without a shell."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from plimsoll.adapters.cluster.bearer_access import BearerAccess
from plimsoll.console.guards.errors import ConsoleRefusal
from plimsoll.console.pages.commands import what_if
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources import commands as module
from plimsoll.console.sources.commands import AT_ONCE, Commands, Ran
from plimsoll.console.views.faults import FieldFault
from plimsoll.console.views.world import ClusterView
from plimsoll.console.visit import ConsolePage
from tests.support.console_pages import Saying, view_of, visit_of
from tests.support.eventually import eventually

TOKEN = "secret-of-alex"  # noqa: S105 - a word that a test looks for
BEARER = BearerAccess("https://127.0.0.1:1", TOKEN)

REPORT = """
import json, os, sys
print(json.dumps({"arguments": sys.argv[1:], "given": sys.stdin.read(), "environment": dict(os.environ)}))
"""
READ = "import sys; print(open(sys.argv[-1].removeprefix('--kubeconfig=')).read())"
HANG = 'exec /bin/sh -c \'echo $$ > "$1"; exec sleep 600\' hanging "$2"\n'
"""A shell's line that writes its process id to the file of the last argument: it starts at once on a busy machine."""

PYTHON = sys.executable

Play = Callable[[str], None]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Play:
    """Lets a script run in the place of the command, with the same process around it."""

    def use(text: str) -> None:
        script = tmp_path / "script.py"
        script.write_text(text, encoding="utf-8")
        interpreter = tmp_path / "python"
        run = text if text == HANG else f'exec "{PYTHON}" "{script}" "$@"\n'
        interpreter.write_text(f"#!/bin/sh\nshift 2\n{run}", encoding="utf-8")
        interpreter.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(interpreter))

    return use


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def started(file: Path) -> int:
    """The id of the process, once it has written it."""
    await eventually(lambda: file.exists() and file.read_text().strip())
    return int(file.read_text())  # noqa: ASYNC240 - a few bytes


async def test_the_real_command_answers_and_its_status_is_kept() -> None:
    listed, refused = await asyncio.gather(Commands().run(["gpus"]), Commands().run(["no-such-command"]))
    assert listed.status == 0
    assert "h100-sxm-80gb" in listed.out
    assert refused.status != 0
    assert "no-such-command" in refused.err


@pytest.mark.parametrize("word", ["; echo broken", "$(id)", "a b", "--output=json\n", "\u2028", "'\"`"])
async def test_a_hostile_argument_stays_one_argument(play: Play, word: str) -> None:
    play(REPORT)
    said = json.loads((await Commands().run(["plan", f"--what-if={word}"], "the manifest \u00e9")).out)
    assert said["arguments"] == ["plan", f"--what-if={word}"]
    assert said["given"] == "the manifest \u00e9"


async def test_a_persons_token_is_in_no_argument_and_no_environment_variable(play: Play) -> None:
    play(REPORT)
    said = json.loads((await Commands().run(["plan"], "", BEARER)).out)
    assert said["arguments"][0] == "plan"
    assert said["arguments"][1].startswith("--kubeconfig=/proc/self/fd/")
    assert TOKEN not in json.dumps(said)


async def test_the_child_can_read_the_persons_kubeconfig_and_the_next_one_has_none(play: Play) -> None:
    play(READ)
    commands = Commands()
    config = json.loads((await commands.run(["plan"], "", BEARER)).out)
    assert config["users"][0]["user"] == {"token": TOKEN}
    assert config["clusters"][0]["cluster"]["server"] == BEARER.server
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names of descriptors
    play(REPORT)
    said = json.loads((await commands.run(["plan"])).out)
    assert said["arguments"] == ["plan"]
    assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - names of descriptors


async def test_a_command_that_takes_too_long_is_ended_and_refused(
    play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play(HANG)
    commands, file = Commands(), tmp_path / "pid"
    monkeypatch.setattr(module, "RUN_SECONDS", 1.0)
    with pytest.raises(ConsoleRefusal) as refused:
        await commands.run(["plan", str(file)])
    assert (refused.value.status, refused.value.word) == (504, "TooSlow")
    assert not is_alive(await started(file))
    play(REPORT)
    assert (await commands.run(["plan"])).status == 0


async def test_a_cancelled_question_ends_its_process_and_gives_its_place_back(play: Play, tmp_path: Path) -> None:
    play(HANG)
    commands = Commands()
    files = [tmp_path / f"pid-{number}" for number in range(AT_ONCE)]
    tasks = [asyncio.create_task(commands.run(["plan", str(file)])) for file in files]
    processes = [await started(file) for file in files]
    assert all(map(is_alive, processes))
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in results)
    assert not any(map(is_alive, processes))
    play(REPORT)
    assert (await commands.run(["plan"])).status == 0


async def test_more_questions_than_places_wait_and_are_refused_at_last(
    play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play(HANG)
    commands = Commands()
    files = [tmp_path / f"pid-{number}" for number in range(AT_ONCE)]
    tasks = [asyncio.create_task(commands.run(["plan", str(file)])) for file in files]
    for file in files:
        await started(file)
    monkeypatch.setattr(module, "QUEUE_SECONDS", 0.05)
    with pytest.raises(ConsoleRefusal) as refused:
        await commands.run(["plan"])
    assert (refused.value.status, refused.value.word) == (503, "TooManyQuestions")
    assert refused.value.headers["Retry-After"] == "10"
    monkeypatch.setattr(module, "QUEUE_SECONDS", 20.0)
    play(REPORT)
    waiting = asyncio.create_task(commands.run(["plan"]))
    tasks[0].cancel()
    assert (await waiting).status == 0
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(("allow", "expected"), [(False, True), (True, False)], ids=["read-only", "with approvals"])
async def test_a_read_only_console_asks_for_no_dry_run(allow: bool, expected: bool) -> None:  # noqa: FBT001 - parameters
    saying = Saying(Ran(2, "", "error: odd"))
    settings = ConsoleSettings(kubeconfig="/k", context="c", allow_approvals=allow)
    view = view_of("/what-if", "POST")
    form = {"manifest": "kind: X", "changes": "-l4-24gb\n\n +1 l40s x8 ", "namespace": "-n"}
    page = await what_if(visit_of(view, ClusterView(), form=form, settings=settings, commands=saying))
    ((arguments, given),) = saying.asked
    assert arguments[:6] == ("plan", "-f", "-", "--namespace=-n", "--what-if=-l4-24gb", "--what-if=+1 l40s x8")
    assert ("--kubeconfig=/k" in arguments, "--context=c" in arguments) == (True, True)
    assert ("--no-dry-run" in arguments) is expected
    assert given == "kind: X"
    assert isinstance(page, ConsolePage)
    assert page.values["fault"] == FieldFault("", "odd")


async def test_too_many_changes_are_refused() -> None:
    view = view_of("/what-if")
    with pytest.raises(ConsoleRefusal) as refused:
        await what_if(visit_of(view, ClusterView(), query={"change": ("-x",) * 21}))
    assert refused.value.status == 422
    assert isinstance(await what_if(visit_of(view, ClusterView(), query={"change": ("-x",) * 20})), ConsolePage)


async def test_a_person_who_signed_in_does_not_use_the_consoles_kubeconfig() -> None:
    said: list[tuple[Sequence[str], object]] = []

    class Listening(Saying):
        async def run(self, arguments: Sequence[str], given: str = "", bearer: object = None) -> Ran:  # noqa: ARG002
            said.append((arguments, bearer))
            return self.ran

    settings = ConsoleSettings(kubeconfig="/k", context="c")
    view = view_of("/what-if")
    await what_if(
        visit_of(view, ClusterView(), query={"change": ("-x",)}, settings=settings, commands=Listening(), bearer=BEARER)
    )
    ((arguments, bearer),) = said
    assert list(arguments) == ["plan", "--what-if=-x", "-o", "json", "--no-dry-run"]
    assert bearer is BEARER
