"""Model facts, fetched in the background and kept in memory: the planner never waits for a network."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any
from weakref import ref

from plimsoll.adapters.cluster.secrets import SecretMissing, SecretUnreadable
from plimsoll.adapters.hub.hub import AccessRefused
from plimsoll.adapters.hub.models import ModelSources
from plimsoll.api.conversion.speculation import DRAFT_FIELD, draft_model
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, ModelSpec
from plimsoll.app.backoff import MOST_DOUBLINGS
from plimsoll.app.lookups.lanes import Lane
from plimsoll.app.lookups.look_ups import LookUp, LookUps
from plimsoll.domain.errors import InvalidInput, ModelNotFound, PlimsollError, SourceUnavailable, UnsupportedModel
from plimsoll.domain.models.model import ModelFacts
from plimsoll.domain.public_words import ConditionReason
from plimsoll.status.record.report import DeploymentProblem

RETRY_FIRST_SECONDS = 5.0
"""The first pause after a source did not answer. Each further pause is twice as long."""

RETRY_LONGEST_SECONDS = 300.0
"""The longest such pause: a hub that is down for an hour gets a dozen requests, not thousands."""

PERMANENT_RETRY_SECONDS = 600.0
"""The pause after a permanent error such as "not found": a repository may be published or a token granted later."""

ACCESS_RETRY_SECONDS = 60.0
"""The pause after a refused token or a missing right: a person is probably fixing it."""

SECRET_RETRY_SECONDS = 5.0
"""The pause after a missing Secret: it is often created a moment after the object that names it."""

SECONDS_PER_FAILURE = 0.5
"""A namespace with many failed look-ups retries at most twice a second, all of them together."""

AT_ONCE = 4
PER_NAMESPACE = 2
"""The most look-ups that may run at once, in total and for one namespace."""

NOTICE_SECONDS = 2.0
"""How long a first look-up may take before a status reports it."""

MOST_CHARACTERS = 2000
"""The longest problem message: it quotes the configuration, which may hold megabytes in place of a number."""

LARGEST_BOOK = 4096
FORGOTTEN_AFTER_SECONDS = 3600.0

logger = logging.getLogger("plimsoll.models")

ReadToken = Callable[[str, str, str], Awaitable[str]]
"""Reads a Secret's entry: namespace, name, key. Raises as :func:`plimsoll.adapters.cluster.secrets.read_entry` does."""

_REASONS: tuple[tuple[type[PlimsollError], ConditionReason, bool, float | None], ...] = (
    (SecretMissing, ConditionReason.TOKEN_SECRET_MISSING, False, SECRET_RETRY_SECONDS),
    (SecretUnreadable, ConditionReason.TOKEN_SECRET_UNREADABLE, True, ACCESS_RETRY_SECONDS),
    (ModelNotFound, ConditionReason.MODEL_NOT_FOUND, True, PERMANENT_RETRY_SECONDS),
    (UnsupportedModel, ConditionReason.UNSUPPORTED_MODEL, True, PERMANENT_RETRY_SECONDS),
    (InvalidInput, ConditionReason.INVALID_MODEL_CONFIG, True, PERMANENT_RETRY_SECONDS),
    (PlimsollError, ConditionReason.MODEL_SOURCE_UNAVAILABLE, False, None),
)
"""For each error: its reason in conditions, whether it is permanent, and its fixed pause (None: a growing pause)."""


_REMOTE, _LOCAL = 0, 1
"""The lanes of look-ups that need the hub, and of those that need none."""


@dataclass(slots=True)
class _Entry(LookUp):
    """One model's look-up. ``round`` counts the passes up to the last one that asked."""

    model: ModelSpec
    is_wanted: bool = False
    answer: ModelFacts | DeploymentProblem | None = None
    failures: int = 0
    round: int = 0
    is_inline: bool = False


class ModelCache:
    """A cache of model facts. It answers at once and notes what is missing; :meth:`start_wanted` looks that up.

    :meth:`look_up` may be called from any thread; everything else belongs to the event loop. Look-ups
    without a network use a separate thread, so that a hub that hangs does not delay them.

    Args:
        sources: where facts come from.
        read_token: reads an entry of a Secret.
        on_change: called on the event loop when an answer has changed.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        sources: ModelSources,
        read_token: ReadToken,
        on_change: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self._read_token = read_token
        self._on_change = on_change
        self._clock = clock
        self._entries = LookUps[_Entry](
            self._fetch,
            (Lane(AT_ONCE, PER_NAMESPACE), Lane(AT_ONCE, PER_NAMESPACE)),
            forgotten_seconds=FORGOTTEN_AFTER_SECONDS,
            is_wanted=lambda entry: entry.is_wanted and not isinstance(entry.answer, ModelFacts),
            clock=clock,
        )
        self._remote_pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="models")
        self._local_pool = ThreadPoolExecutor(1, thread_name_prefix="known-models")
        self._round = 0
        self._questions: dict[int, tuple[ref[ModelSpec], str]] = {}

    def look_up(self, namespace: str, model: ModelSpec) -> ModelFacts | DeploymentProblem:
        """Return the facts, or the reason why there are none (yet). Starts no look-up."""
        with self._entries.lock:
            entry = self._entry(namespace, model)
            entry.round = self._round
            entry.is_wanted = not isinstance(entry.answer, ModelFacts)
            if entry.is_wanted:
                entry.model = model
            answer = entry.answer
        doing = f"Reading the configuration of {model.name}."
        return answer or DeploymentProblem(
            ConditionReason.RESOLVING_MODEL, doing, permanent=False, reported_after_seconds=NOTICE_SECONDS
        )

    def look_up_draft(self, namespace: str, spec: InferenceDeploymentSpec) -> ModelFacts | DeploymentProblem | None:
        """Do the same for the draft model of speculative decoding; None if the spec names none."""
        draft = draft_model(spec)
        answer = None if draft is None else self.look_up(namespace, draft)
        if isinstance(answer, DeploymentProblem):
            return replace(answer, message=f"{DRAFT_FIELD}: {answer.message}")
        return answer

    def start_wanted(self) -> None:
        """Start the wanted and due look-ups in fair order. Call it after each pass."""
        with self._entries.lock:
            self._drop_inline()
            self._round += 1
        self._entries.start()

    async def close(self) -> None:
        """Stop the look-ups that still run."""
        self._sources.close()
        await self._entries.close()
        self._remote_pool.shutdown(wait=False, cancel_futures=True)
        self._local_pool.shutdown(wait=False, cancel_futures=True)

    def _entry(self, namespace: str, model: ModelSpec) -> _Entry:
        question = self._question(model)
        entry = self._entries.found(namespace, question)
        if entry is None:
            self._make_room()
            needs_hub = self._sources.needs_hub(model.name, revision=model.revision, inline=model.config)
            lane = _REMOTE if needs_hub else _LOCAL
            entry = _Entry(model, namespace=namespace, lane=lane, is_inline=model.config is not None)
            self._entries.add(question, entry)
        return entry

    def _question(self, model: ModelSpec) -> str:
        """Return hex digits for everything that the facts depend on: all but the path of the weights.

        Most passes ask about the same Python object again. Its digits are kept for as long as it lives.
        """
        known = self._questions.get(id(model))
        if known is not None and known[0]() is model:
            return known[1]
        if len(self._questions) > 2 * LARGEST_BOOK:
            self._questions = {key: each for key, each in self._questions.items() if each[0]() is not None}
        text = json.dumps(model.model_dump(mode="json", exclude={"path"}), sort_keys=True)
        digest = sha256(text.encode()).hexdigest()
        self._questions[id(model)] = ref(model), digest
        return digest

    def _drop_inline(self) -> None:
        """Drop entries with an inline config that the last passes did not ask about: their objects have changed."""
        for namespace, page in list(self._entries.pages.items()):
            for question in [each for each, entry in page.items() if entry.is_inline and entry.round + 1 < self._round]:
                self._entries.drop(namespace, question)

    def _make_room(self) -> None:
        """Drop one entry of the namespace with the most entries: a flood harms only the namespace that causes it."""
        pages = self._entries.pages
        if sum(map(len, pages.values())) < LARGEST_BOOK:
            return
        largest = max(pages, key=lambda namespace: len(pages[namespace]))
        self._entries.drop(largest, next(iter(pages[largest])))

    async def _fetch(self, entry: _Entry) -> None:
        entry.is_wanted = False
        before = entry.answer
        try:
            facts = await self._facts(entry)
            count = entry.model.parameters
            entry.answer = facts if count is None else replace(facts, parameters=count)
        except PlimsollError as error:
            entry.answer = self._failed(entry, error)
        except Exception as error:  # a bug of ours must not be retried in every pass
            logger.exception("looking up %s failed", entry.model.name)
            failure = SourceUnavailable(f"{entry.model.name}: {type(error).__name__}: {error}")
            entry.answer = self._failed(entry, failure)
        with self._entries.lock:
            if not entry.is_wanted:  # its facts are read, and its config may be large; who asks again brings it along
                entry.model = entry.model.model_copy(update={"config": None})
        if entry.answer != before:
            self._on_change()

    async def _facts(self, entry: _Entry) -> ModelFacts:
        """Read the facts with the named token. If it cannot be read, try without it: a public model needs none."""
        model = entry.model
        token, unreadable = None, None
        try:
            token = await self._token(entry)
        except SecretUnreadable as error:
            unreadable = error
        pool = self._local_pool if entry.lane == _LOCAL else self._remote_pool
        how: dict[str, Any] = {"revision": model.revision, "token": token, "inline": model.config}
        ask = partial(self._sources.resolve, model.name, **how, asker=entry.namespace)
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, ask)
        except AccessRefused:
            if unreadable is None:
                raise
            known = self._sources.stand_in(model.name, model.revision)
            if known is None:
                raise unreadable from None
            return known

    async def _token(self, entry: _Entry) -> str | None:
        reference = entry.model.token_secret_ref
        if reference is None or entry.lane == _LOCAL:
            return None
        try:
            return (await self._read_token(entry.namespace, reference.name, reference.key)).strip()
        except (SecretMissing, SecretUnreadable) as error:
            raise type(error)(f"spec.model.tokenSecretRef: {error}") from error

    def _failed(self, entry: _Entry, error: PlimsollError) -> DeploymentProblem:
        reason, permanent, pause = next(
            (reason, permanent, pause) for kind, reason, permanent, pause in _REASONS if isinstance(error, kind)
        )
        entry.failures += 1
        if isinstance(error, AccessRefused) and entry.model.token_secret_ref is not None:
            pause = ACCESS_RETRY_SECONDS
        if pause is None:
            pause = min(RETRY_FIRST_SECONDS * 2 ** min(entry.failures - 1, MOST_DOUBLINGS), RETRY_LONGEST_SECONDS)
        with self._entries.lock:
            page = self._entries.pages.get(entry.namespace)
            failing = 0 if page is None else sum(isinstance(other.answer, DeploymentProblem) for other in page.values())
        entry.due_at = self._clock() + max(pause, SECONDS_PER_FAILURE * failing)
        text = str(error)
        if len(text) > MOST_CHARACTERS:
            text = f"{text[:MOST_CHARACTERS]} ..."
        problem = DeploymentProblem(reason, text, permanent=permanent)
        if problem != entry.answer:
            logger.warning("%s: %s: %s", entry.namespace, reason, text)
        return problem
