"""The input and the output of a page: every handler has the same shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plimsoll.adapters.cluster.bearer_access import BearerAccess
from plimsoll.adapters.cluster.client import Cluster
from plimsoll.console.settings import ConsoleSettings
from plimsoll.console.sources.commands import Commands
from plimsoll.console.sources.live import LiveSource
from plimsoll.console.views.paging import first_of
from plimsoll.console.views.world import ClusterView


@dataclass(frozen=True, slots=True)
class Tools:
    """The parts that all visits share: settings, commands of the command line, and where live use is read."""

    settings: ConsoleSettings
    commands: Commands = field(default_factory=Commands)
    live: LiveSource = field(default_factory=lambda: LiveSource(None))


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page.

    Attributes:
        path: the path of the URL, unescaped.
        query: the parameters of the URL, each with all its values in order.
        parts: the variable parts of the path, by name.
        person: the user name that the API server knows; empty if it did not say one.
        world: everything that the person may see.
        cluster: the API server, with the person's credentials.
        tools: what all visits share.
        now: POSIX seconds.
        form: the fields of a POST; empty for a GET.
        bearer: the credentials of a person who signed in; None for the person of a kubeconfig.
    """

    path: str
    query: Mapping[str, tuple[str, ...]]
    parts: Mapping[str, str]
    person: str
    world: ClusterView
    cluster: Cluster
    tools: Tools
    now: float
    form: Mapping[str, str] = field(default_factory=dict)
    bearer: BearerAccess | None = None

    def first(self, name: str) -> str:
        """Return the first value of a parameter, without surrounding blanks; empty if there is none."""
        return first_of(self.query, name)


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A template with its values. A live page is fetched again when something changes; a form is not."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    is_live: bool = True


@dataclass(frozen=True, slots=True)
class Redirect:
    """The answer to a POST: see this page."""

    to: str


Handler = Callable[[Visit], Awaitable[ConsolePage | Redirect]]


@dataclass(frozen=True, slots=True)
class View:
    """One page: its path, its handler, and its word in the navigation; empty for pages that others link to.

    A view that writes to the cluster exists only if approvals are allowed. ``meanwhile`` gives the page without its
    answer, for one whose answer may take long; ``progress`` says what is done until then.
    """

    path: str
    handler: Handler
    word: str = ""
    method: str = "GET"
    writes: bool = False
    meanwhile: Callable[[Visit], ConsolePage] | None = None
    progress: str = ""
