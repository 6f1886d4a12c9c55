"""Runs a command of the command line in a process of its own: the same figures, and no page waits for a long plan."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plimsoll.adapters.cluster.bearer_access import BearerAccess
from plimsoll.console.guards.errors import ConsoleRefusal

AT_ONCE = 2
"""Commands that run at the same time."""

QUEUE_SECONDS = 10.0
"""How long a question waits for its turn."""

RUN_SECONDS = 60.0
"""How long a command may run. A plan for one more among 1,000 deployments takes a few seconds."""

LARGEST_ANSWER = 32 * 1024 * 1024
"""Bytes that are read of an answer."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a command."""

    status: int
    out: str
    err: str


class Commands:
    """Runs at most :data:`AT_ONCE` commands at the same time. A cancelled question ends its process."""

    def __init__(self) -> None:
        self._ways = asyncio.Semaphore(AT_ONCE)

    async def run(self, arguments: Sequence[str], given: str = "", bearer: BearerAccess | None = None) -> Ran:
        """Run ``plimsoll`` with these arguments.

        Args:
            arguments: the arguments, each as it is: there is no shell.
            given: the standard input.
            bearer: credentials for the cluster, which no file and no argument has; None for a command without them.

        Raises:
            ConsoleRefusal: too many questions at once, or the answer takes too long.
        """
        try:
            async with asyncio.timeout(QUEUE_SECONDS):
                await self._ways.acquire()
        except TimeoutError:
            words = "The console works on other questions."
            raise ConsoleRefusal(
                503, "TooManyQuestions", words, "Ask again in a moment.", {"Retry-After": "10"}
            ) from None
        try:
            return await _with_access(arguments, given, bearer)
        finally:
            self._ways.release()


async def _with_access(arguments: Sequence[str], given: str, bearer: BearerAccess | None) -> Ran:
    if bearer is None:
        return await _run(arguments, given)
    with _in_memory(bearer.kubeconfig()) as file:
        return await _run([*arguments, f"--kubeconfig=/proc/self/fd/{file}"], given, (file,))


@contextlib.contextmanager
def _in_memory(text: str) -> Iterator[int]:
    """Yield the descriptor of a file that is on no disk and ends with this process."""
    file = os.memfd_create("kubeconfig")
    try:
        os.write(file, text.encode())
        yield file
    finally:
        os.close(file)


async def _run(arguments: Sequence[str], given: str, files: Sequence[int] = ()) -> Ran:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "plimsoll", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=pipe, limit=LARGEST_ANSWER, pass_fds=files
    )
    try:
        async with asyncio.timeout(RUN_SECONDS):
            out, err = await process.communicate(given.encode())
    except TimeoutError:
        words = f"The answer took more than {RUN_SECONDS:.0f} s and was stopped."
        raise ConsoleRefusal(504, "TooSlow", words, "Ask plimsoll in a terminal: it has no such limit.") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return Ran(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))
