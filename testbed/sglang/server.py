"""A running SGLang: the operator's rendered command, served with the tiny model on this machine's CPU."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from testbed.engine.environment import ensure_engine
from testbed.processes import Child
from testbed.sglang.environment import sglang_environment
from testbed.waiting import wait_until

START_SECONDS: Final = 600.0
"""Ready after half a minute on two cores; only what hangs takes so long."""

_HOST: Final = "127.0.0.1"

_CPU: Final = (
    *("--device", "cpu", "--load-format", "dummy", "--skip-tokenizer-init", "--disable-overlap-schedule"),
    *("--attention-backend", "torch_native", "--sampling-backend", "pytorch", "--grammar-backend", "none"),
    *("--cuda-graph-backend-decode", "disabled", "--cuda-graph-backend-prefill", "disabled"),
)
_OF_GPUS: Final = ("--cuda-graph-max-bs-decode", "--quantization", "--mem-fraction-static", "--tp-size")
"""Flags with a value that a CPU has no use for. Its memory is the machine's, so a cap stands for the share."""


class SglangServer:
    """``sglang serve`` with adapted arguments, from ``with`` to its end.

    Args:
        arguments: as they are rendered.
        model: the folder of the tiny model.
        port: where it listens.
        log: everything it writes.
        tokens: the tokens of the cache; None leaves the choice to the engine.
    """

    def __init__(self, arguments: Sequence[str], *, model: Path, port: int, log: Path, tokens: int | None) -> None:
        own = {"--model-path": str(model), "--host": _HOST, "--port": str(port)}
        words = list(arguments)
        for flag in _OF_GPUS:
            if flag in words:
                del words[words.index(flag) : words.index(flag) + 2]
        for flag, value in own.items():
            words[words.index(flag) + 1] = value
        cap = [] if tokens is None else ["--max-total-tokens", str(tokens)]
        self.log, self.url = log, f"http://{_HOST}:{port}"
        self._child = Child(
            "sglang",
            [str(ensure_engine()), "-m", "sglang.launch_server", *words, *_CPU, *cap],
            log=log,
            environment=sglang_environment(log.parent),
        )

    def __enter__(self) -> Self:
        self._child.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.stop()

    def wait_until_ready(self) -> None:
        """Wait until ``/ready`` says 200. Raises RuntimeError if the server ended instead."""

        def is_ready() -> bool:
            if not self._child.is_running:
                raise RuntimeError(f"SGLang ended:\n{self.words()}")
            return self.status("/ready") == HTTPStatus.OK

        wait_until(is_ready, START_SECONDS, "a ready SGLang")

    def wait_for_end(self) -> int | None:
        """Return the exit status once the server has ended, negative for a signal."""
        wait_until(lambda: not self._child.is_running, START_SECONDS, "the end of SGLang")
        return self._child.exit_status

    def ends_instead_of_serving(self) -> bool:
        """Wait until the server has ended or is ready, and return whether it has ended."""
        wait_until(
            lambda: not self._child.is_running or self.status("/ready") == HTTPStatus.OK,
            START_SECONDS,
            "the end of SGLang, or its readiness",
        )
        return not self._child.is_running

    def terminate(self) -> None:
        """Send SIGTERM to the first process alone, as a kubelet does, and return at once."""
        os.kill(self._child.pid, signal.SIGTERM)

    def words(self, characters: int = 2048) -> str:
        """Return the end of the log. The kubelet keeps as much of a container that ended."""
        return self.log.read_text(errors="replace")[-characters:]

    def status(self, path: str) -> int:
        """Return the status of a GET; 0 where nothing listens."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:  # noqa: S310 - loopback
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def page(self, path: str) -> str:
        """Return the text of a GET."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:  # noqa: S310 - loopback
            return str(answer.read().decode())

    def generate(self, prompt: Sequence[int], tokens: int, *, stream: bool = False) -> Any:
        """Return the answer to one request, of exactly ``tokens`` tokens; its lines if it comes as a stream."""
        parameters = {"max_new_tokens": tokens, "ignore_eos": True}
        body = {"input_ids": list(prompt), "sampling_params": parameters, "stream": stream}
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.url}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=START_SECONDS) as answer:  # noqa: S310 - loopback
            text = answer.read().decode()
        return text.splitlines() if stream else json.loads(text)
