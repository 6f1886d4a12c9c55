"""Who teaches an estimate: a cluster's engines, or files of observations. And the options that name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any

from plimsoll.cli.cluster.options import ClusterAccess
from plimsoll.cli.options import grouped, option
from plimsoll.domain.decisions.observations import EngineKind, Seen
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.kubernetes_names import ObjectKey

if TYPE_CHECKING:
    from plimsoll.decision.lessons import Contribution  # it takes long to import


@dataclass(frozen=True, slots=True)
class Teachers:
    """The sources of observations that the user names. ``namespace`` None stands for all namespaces."""

    from_cluster: bool = False
    namespace: str | None = None
    access: ClusterAccess = field(default_factory=ClusterAccess)
    files: tuple[str, ...] = ()

    @property
    def are_asked(self) -> bool:
        """Whether the user names any."""
        return self.from_cluster or bool(self.files)


@dataclass(frozen=True, slots=True)
class Taught:
    """An observation and its source: the name of a file, or an object, whose ``key`` is given."""

    where: str
    seen: Seen
    key: ObjectKey | None = None

    @property
    def kind(self) -> EngineKind:
        """The kind of engine that was observed."""
        return self.seen.observation.kind


@dataclass(frozen=True, slots=True)
class Lessons:
    """Everything that the sources teach, and notes on what could not be read."""

    taught: tuple[Taught, ...] = ()
    notes: tuple[str, ...] = ()
    contributions: tuple[Contribution, ...] = ()


_OPTIONS = grouped(
    option("--from-cluster"),
    option("--namespace", note="With --from-cluster: only engines of it. Default: all."),
    option("--kubeconfig", note="With --from-cluster."),
    option("--context", note="With --from-cluster."),
    option("--observations", multiple=True),
)


_TOKENS = {"--context": " Tokens are --context-length."}


def with_teachers(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name sources of observations. The command gets them as ``teachers``."""

    @wraps(command)
    def taught(
        *,
        from_cluster: bool,
        namespace: str | None,
        kubeconfig: str | None,
        context: str | None,
        observations: tuple[str, ...],
        **options: Any,
    ) -> Any:
        given = {"--namespace": namespace, "--kubeconfig": kubeconfig, "--context": context}
        for name, value in given.items():
            if value is not None and not from_cluster:
                fix = f"It is for engines of a cluster: add --from-cluster, or leave it out.{_TOKENS.get(name, '')}"
                raise InvalidInput(name, value, fix)
        access = ClusterAccess(kubeconfig, context)
        return command(teachers=Teachers(from_cluster, namespace, access, observations), **options)

    decorated: Callable[..., Any] = _OPTIONS(taught)
    return decorated
