"""Model facts, fetched in the background and remembered: the planner never waits for a network."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from plimsoll.adapters.models import ModelSources
from plimsoll.api.speculation import DRAFT_FIELD, draft_model
from plimsoll.api.v1alpha1 import InferenceDeploymentSpec, ModelSpec
from plimsoll.app.backoff import MOST_DOUBLINGS
from plimsoll.domain.errors import InvalidInput, ModelNotFound, PlimsollError, SourceUnavailable, UnsupportedModel
from plimsoll.domain.model import ModelFacts
from plimsoll.render.report import Problem

RETRY_FIRST_SECONDS = 5.0
"""First pause after a source that did not answer; doubled each time ..."""

RETRY_LONGEST_SECONDS = 300.0
"""... up to this: a hub that is down for an hour is asked a dozen times, not thousands."""

PERMANENT_RETRY_SECONDS = 600.0
"""Even "not found" is asked again: repositories are published and tokens granted."""

RESOLVING = "ResolvingModel"
"""Reason of the problem that goes away by itself: the first look-up has not come back yet."""

logger = logging.getLogger("plimsoll.models")

ReadToken = Callable[[str, str, str], Awaitable[str | None]]
"""Reads a Secret's entry: namespace, name, key."""

_REASONS: tuple[tuple[type[PlimsollError], str, bool], ...] = (
    (ModelNotFound, "ModelNotFound", True),
    (UnsupportedModel, "UnsupportedModel", True),
    (InvalidInput, "InvalidModelConfig", True),
    (SourceUnavailable, "ModelSourceUnavailable", False),
)
"""What a failed look-up is called in conditions, and whether it is the user's to mend."""


@dataclass(slots=True)
class _Entry:
    """One model's look-up: running, answered, or failed and due again at ``retry_at`` (event-loop time)."""

    answer: ModelFacts | Problem | None = None
    task: asyncio.Task[None] | None = None
    failures: int = 0
    retry_at: float = 0.0


class ModelBook:
    """Answers at once with what is known; what is not known is looked up in a thread and reported by ``on_change``."""

    def __init__(self, sources: ModelSources, read_token: ReadToken, on_change: Callable[[], None]) -> None:
        self._sources = sources
        self._read_token = read_token
        self._on_change = on_change
        self._entries: dict[str, _Entry] = {}

    def look_up(self, namespace: str, model: ModelSpec) -> ModelFacts | Problem:
        """The facts, or why there are none (yet)."""
        identity = _identity(namespace, model)
        entry = self._entries.setdefault(identity, _Entry())
        if entry.task is None and not isinstance(entry.answer, ModelFacts):
            self._shim = getattr(self, "_shim", [])
            self._shim.append((entry, namespace, model))
        pending = Problem(RESOLVING, f"Reading the configuration of {model.name}.", permanent=False)
        return entry.answer or pending

    def look_up_draft(self, namespace: str, spec: InferenceDeploymentSpec) -> ModelFacts | Problem | None:
        """The same for the draft of speculative decoding; None where the spec names none."""
        draft = draft_model(spec)
        answer = None if draft is None else self.look_up(namespace, draft)
        if isinstance(answer, Problem):
            return replace(answer, message=f"{DRAFT_FIELD}: {answer.message}")
        return answer

    def start_wanted(self):
        for entry, namespace, model in getattr(self, "_shim", []):
            if entry.task is None and asyncio.get_running_loop().time() >= entry.retry_at:
                entry.task = asyncio.create_task(self._fetch(entry, namespace, model))
        self._shim = []

    def next_due_in_seconds(self):
        return None

    async def close(self) -> None:
        """Stop what is still running."""
        running = [entry.task for entry in self._entries.values() if entry.task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _fetch(self, entry: _Entry, namespace: str, model: ModelSpec) -> None:
        try:
            token = await self._token(namespace, model)
            facts = await asyncio.to_thread(
                self._sources.resolve, model.name, revision=model.revision, token=token, inline=model.config
            )
            entry.answer = facts if model.parameters is None else replace(facts, parameters=model.parameters)
        except PlimsollError as error:
            entry.answer = self._failed(entry, error)
        except Exception as error:  # a fault of our own must not be tried again at every pass
            logger.exception("looking up %s failed", model.name)
            entry.answer = self._failed(entry, SourceUnavailable(f"{model.name}: {type(error).__name__}: {error}"))
        finally:
            entry.task = None
            self._on_change()

    def _failed(self, entry: _Entry, error: PlimsollError) -> Problem:
        reason, permanent = next(
            ((reason, permanent) for kind, reason, permanent in _REASONS if isinstance(error, kind)),
            ("ModelSourceUnavailable", False),
        )
        entry.failures += 1
        pause = min(RETRY_FIRST_SECONDS * 2 ** min(entry.failures - 1, MOST_DOUBLINGS), RETRY_LONGEST_SECONDS)
        entry.retry_at = asyncio.get_running_loop().time() + (PERMANENT_RETRY_SECONDS if permanent else pause)
        logger.warning("%s: %s", reason, error)
        return Problem(reason, str(error), permanent=permanent)

    async def _token(self, namespace: str, model: ModelSpec) -> str | None:
        reference = model.token_secret_ref
        if reference is None or model.config is not None:
            return None
        token = await self._read_token(namespace, reference.name, reference.key)
        if token is None:
            raise ModelNotFound(
                f"spec.model.tokenSecretRef: Secret {namespace}/{reference.name} has no key {reference.key!r}."
            )
        return token.strip()


def _identity(namespace: str, model: ModelSpec) -> str:
    """Two objects share a look-up only if nothing about it differs; a token ties it to its namespace."""
    scope = namespace if model.token_secret_ref is not None else ""
    return scope + json.dumps(model.model_dump(mode="json", exclude={"path"}), sort_keys=True)
