"""A running vLLM: the operator's rendered command, served with the tiny model on this machine's CPU."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from testbed.engine.cpu_command import for_cpu
from testbed.engine.environment import ensure_engine
from testbed.engine.process_environment import engine_process_environment
from testbed.processes import Child
from testbed.waiting import wait_until

START_TIMEOUT_S: Final = 1200.0
"""Ready after 21 to 34 s on two shared cores; only what hangs takes so long."""

STOP_TIMEOUT_S: Final = 30.0
"""How long a server may take to end on SIGTERM before it is killed."""

REQUEST_TIMEOUT_S: Final = 1200.0
"""One request; under full load a long answer waits its turn, on a busy machine for long."""

_HOST: Final = "127.0.0.1"

_SCRIPT: Final = Path(__file__).with_name("serve.py")
_POD_ROOT: Final = Path(__file__).with_name("pod_root.sh")


def in_pod_root(root: Path, visible: Path) -> list[str]:
    """What goes before a command to run it with the file systems of the engine's pod; Linux only.

    Args:
        root: a folder to make, for the new root.
        visible: what the command must see although it lies in a temporary folder.
    """
    root.mkdir()
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return [shutil.which("unshare") or "unshare", "--mount", *as_root, str(_POD_ROOT), str(root), str(visible)]


class EngineServer:
    """``vllm serve`` with adapted arguments, from :meth:`start` (or ``with``) to :meth:`stop`.

    With ``pod_environment`` it runs with that environment on a read-only root, as the rendered pod does.

    Attributes:
        arguments: what the server is started with.
        replacements: one line for each difference from the rendered arguments.
        log: the file with everything the server writes.
        url: the server's address, ``http://127.0.0.1:PORT``.
        metrics_url: where Prometheus finds its metrics.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        model_dir: Path,
        port: int,
        log: Path,
        kv_blocks: int | None = None,
        pod_environment: Mapping[str, str] | None = None,
    ) -> None:
        self.arguments, self.replacements = for_cpu(
            argv, model_dir=model_dir, port=port, host=_HOST, kv_blocks=kv_blocks
        )
        self.log = log
        self.url = f"http://{_HOST}:{port}"
        self.metrics_url = f"{self.url}/metrics"
        self._port = port
        prefix = [] if pod_environment is None else in_pod_root(log.with_name("root"), model_dir)
        self._process = Child(
            "vllm",
            [*prefix, str(ensure_engine()), "-P", str(_SCRIPT), *self.arguments],
            log=log,
            environment=engine_process_environment(pod_environment),
            grace_seconds=STOP_TIMEOUT_S,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def exit_status(self) -> int | None:
        """What the server's first process ended with, negative for a signal; None while it runs."""
        return self._process.exit_status

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the server, tell how it differs from what was rendered, and wait until ``/health`` says 200.

        Raises:
            RuntimeError: it ended instead; the message ends with its last words.
            TimeoutError: it was not ready in time.
        """
        for line in self.replacements:
            print(f"[engine] {line}")
        self._process.start()
        try:
            self._wait_until_healthy(timeout_s)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the server and every process it started; nothing happens if it does not run."""
        self._process.stop()

    def terminate(self) -> None:
        """Send SIGTERM to the server's first process alone, as a kubelet does, and return at once."""
        os.kill(self._process.pid, signal.SIGTERM)

    def wait_until_ended(self, timeout_s: float) -> None:
        """Wait for the first process to end by itself. Raises ``NotInTime`` where it does not."""
        wait_until(lambda: not self._process.is_running, timeout_s, "the engine's end")

    @contextmanager
    def engine_held(self) -> Iterator[None]:
        """Let the engine stand still while its HTTP side goes on answering: the load that it reports is fixed.

        Linux only: the engine's processes are found in ``/proc``.
        """
        held = [pid for pid in _processes_of_group(self._process.pid) if pid != self._process.pid]
        for pid in held:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in held:
                os.kill(pid, signal.SIGCONT)

    def complete(self, prompt: str, max_tokens: int) -> Mapping[str, Any]:
        """One completion of exactly ``max_tokens`` tokens, as ``/v1/completions`` answers it.

        Raises:
            RuntimeError: the server refused; the message has its status and its words.
        """
        # Random weights end a text at a random place; a test needs to know how long its requests are.
        question = {"model": self._served_name(), "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}
        answer: Mapping[str, Any] = json.loads(self._ask("POST", "/v1/completions", question))
        return answer

    def embed(self, text: str) -> list[float]:
        """The embedding of a text, as ``/v1/embeddings`` answers it.

        Raises:
            RuntimeError: the server refused; the message has its status and its words.
        """
        answer = json.loads(self._ask("POST", "/v1/embeddings", {"model": self._served_name(), "input": text}))
        embedding: list[float] = answer["data"][0]["embedding"]
        return embedding

    def metrics(self) -> str:
        """What ``/metrics`` says now, in Prometheus' text format."""
        return self._ask("GET", "/metrics")

    def models(self) -> Mapping[str, Any]:
        """What ``/v1/models`` says."""
        answer: Mapping[str, Any] = json.loads(self._ask("GET", "/v1/models"))
        return answer

    def is_healthy(self) -> bool:
        """Whether ``/health`` says 200, which is what the pod's probes ask."""
        try:
            self._ask("GET", "/health")
        except (OSError, http.client.HTTPException, RuntimeError):
            return False
        return True

    def _served_name(self) -> str:
        if "--served-model-name" in self.arguments:
            return self.arguments[self.arguments.index("--served-model-name") + 1]
        return self.arguments[0]

    def _wait_until_healthy(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self.is_healthy():
            if not self._process.is_running:
                raise RuntimeError(f"the engine ended before it was ready. {self._last_words()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"the engine was not ready after {timeout_s:.0f} s. {self._last_words()}")
            time.sleep(0.25)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> str:
        connection = http.client.HTTPConnection(_HOST, self._port, timeout=REQUEST_TIMEOUT_S)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{method} {self.url}{path} answered {response.status}: {text[:1000]}")
        return text

    def _last_words(self) -> str:
        command = " ".join(["vllm", "serve", *self.arguments])
        return f"Command: {command}\nEnd of {self.log}:\n{self._process.tail(4000)}"


def _processes_of_group(group: int) -> list[int]:
    """The living processes of a process group."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _group_of(pid) == group]


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
