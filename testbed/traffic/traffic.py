"""Users that keep asking a Service, at a rate and with lengths that may change while they ask."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from testbed.api_client import ApiClient
from testbed.traffic.completion import Answered, Question, ask
from testbed.traffic.endpoints import Endpoint, Endpoints
from testbed.traffic.tally import Tally

_MOST_USERS = 128


@dataclass(frozen=True, slots=True)
class Load:
    """How much is asked.

    Attributes:
        per_second: new requests a second; 0 asks nothing.
        users: the most requests at a time. A high rate with few users is a load that is the same on every machine:
            whoever is answered asks again.
        prompt_tokens: bytes of each prompt, which are tokens of the tiny model.
        output_tokens: tokens of each answer.
    """

    per_second: float
    users: int
    prompt_tokens: int
    output_tokens: int


NOTHING = Load(0.0, 1, 1, 1)


class Traffic:
    """Requests to the ready pods of a Service. Each goes once, to a pod with the fewest, in turn.

    Args:
        client: may read EndpointSlices.
        namespace: of the Service.
        service: its name, which is also the model's.
        locate: the address to connect to, for a pod's address.
    """

    def __init__(
        self, client: ApiClient, namespace: str, service: str, *, locate: Callable[[str], str] = lambda address: address
    ) -> None:
        self.tally = Tally()
        self._model = service
        self._locate = locate
        self._endpoints = Endpoints(client, namespace, service)
        self._lock = threading.Lock()
        self._load = NOTHING
        self._at: Counter[str] = Counter()
        self._last: dict[str, int] = {}
        self._turns = itertools.count()
        self._numbers = itertools.count()
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(_MOST_USERS, thread_name_prefix=f"user-{service}")
        self._thread = threading.Thread(target=self._send_on, name=f"traffic-{service}", daemon=True)

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Begin with no load. Raises ApiError and OSError."""
        self._endpoints.start()
        self._thread.start()
        return self

    def stop(self) -> None:
        """Send nothing more, and wait for the answers that are on their way."""
        self._ended.set()
        self._thread.join()
        self._pool.shutdown(wait=True)
        self._endpoints.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- load ---------------------------------------------------------------------------------------------------------

    def set(self, load: Load) -> None:
        """Ask so much from now on. Raises ValueError for more users than there are threads."""
        if load.users > _MOST_USERS:
            raise ValueError(f"users: {load.users}; there are threads for {_MOST_USERS}")
        with self._lock:
            self._load = load

    def on_the_way(self) -> int:
        """Requests without an answer yet."""
        with self._lock:
            return self._at.total()

    def _send_on(self) -> None:
        while not self._ended.is_set():
            load = self._load
            if load.per_second and self.on_the_way() < load.users:
                self._send(load)
            self._ended.wait(1.0 / load.per_second if load.per_second else 0.1)

    def _send(self, load: Load) -> None:
        endpoint = self._choose()
        if endpoint is None:
            self.tally.add(Answered("", time.time(), 0.0, None, 0, "the Service has no ready endpoint"))
        else:
            self._pool.submit(self._ask, endpoint, self._question(load))

    def _choose(self) -> Endpoint | None:
        with self._lock:
            now = self._endpoints.now()
            chosen = min(now, key=lambda each: (self._at[each.pod], self._last.get(each.pod, -1)), default=None)
            if chosen is not None:
                self._at[chosen.pod] += 1
                self._last[chosen.pod] = next(self._turns)
            return chosen

    def _question(self, load: Load) -> Question:
        # Different from the first byte on, so that no request reuses another's KV blocks.
        number = next(self._numbers)
        return Question(self._model, f"{number} ".ljust(load.prompt_tokens, "abcdefgh"[number % 8]), load.output_tokens)

    def _ask(self, endpoint: Endpoint, question: Question) -> None:
        try:
            self.tally.add(ask(endpoint.pod, self._locate(endpoint.address), endpoint.port, question))
        finally:
            with self._lock:
                self._at[endpoint.pod] -= 1
