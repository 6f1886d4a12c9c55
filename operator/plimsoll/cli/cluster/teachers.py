"""Who teaches an estimate: a cluster's engines, or files of observations. And the options that name them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from plimsoll.cli.cluster.options import ClusterAccess
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


_OPTIONS = (
    click.option(
        "--from-cluster", is_flag=True, help="Use what the engines of a cluster have reported about their memory."
    ),
    click.option("-n", "--namespace", help="With --from-cluster: only engines of this namespace. Default: all."),
    click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False), help="With --from-cluster, as kubectl."),
    click.option("--kube-context", help="With --from-cluster: a context of the kubeconfig."),
    click.option(
        "--observations", multiple=True, help="A file that `plimsoll learn --save` has written; may be repeated."
    ),
)


def with_teachers(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name sources of observations. The command gets them as ``teachers``."""

    @wraps(command)
    def taught(
        *,
        from_cluster: bool,
        namespace: str | None,
        kubeconfig: str | None,
        kube_context: str | None,
        observations: tuple[str, ...],
        **options: Any,
    ) -> Any:
        given = {"--namespace": namespace, "--kubeconfig": kubeconfig, "--kube-context": kube_context}
        for name, value in given.items():
            if value is not None and not from_cluster:
                fix = "It is for engines of a cluster: add --from-cluster, or leave it out."
                raise InvalidInput(name, value, fix)
        access = ClusterAccess(kubeconfig, kube_context)
        return command(teachers=Teachers(from_cluster, namespace, access, observations), **options)

    decorated: Callable[..., Any] = taught
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
