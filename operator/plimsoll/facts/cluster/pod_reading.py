"""Read one of our pods: whether it is bound and ready, and why its engine failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from plimsoll.domain.cluster.host import NO_HOST_NEED, HostNeed
from plimsoll.domain.engines.failures import MESSAGE_LIMIT, EngineFailure, PodRejection, StartFailure
from plimsoll.domain.kubernetes_names import QUEUE_LABEL
from plimsoll.domain.requests.workload import ENGINE_CONTAINER
from plimsoll.domain.units import from_rfc3339
from plimsoll.facts.cluster.fleet_reading import holds_gpus
from plimsoll.facts.cluster.host_reading import pod_need
from plimsoll.facts.cluster.scheduler_words import Obstacle, read_obstacles

Body = Mapping[str, Any]

READY, SCHEDULED = "Ready", "PodScheduled"
"""The conditions of a pod that are read. A node has the first one, too."""

ReadFailure = Callable[[str, str], EngineFailure]
"""Returns an engine's failure from the end of its log and from the kubelet's reason (``OOMKilled``, ...)."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod.

    ``ready`` means that it serves: of the pods of a replica one does, so as many replicas serve as pods are ready.
    Times are POSIX seconds. ``bound_since`` is when the scheduler bound it, and ``unscheduled_since`` when it first
    failed to do so. ``obstacles`` are the reasons why the scheduler rejects every node, read from its message.
    ``address`` is the IP address; empty until the pod has one. An engine always asks for GPUs: a pod without
    ``holds_gpus`` is none. ``gone_by`` is when a pod that is being deleted should have ended; None: it is not being
    deleted. ``need`` is what it requests other than GPUs. ``rejection`` is why a kubelet has ended it: no other pod of
    ours ever fails, because a container that ends is started again. ``queue`` is the queue of Kueue that admits it;
    empty if its labels name none. ``uid`` is Kubernetes' identity of the pod. ``command`` is that of the engine's
    container, empty for the image's own entry point; None where the container is not seen.
    """

    name: str
    bound: bool
    ready: bool
    ended: bool
    terminating: bool
    ready_since: float | None = None
    startup_seconds: float | None = None
    unscheduled_since: float | None = None
    bound_since: float | None = None
    scheduler_message: str = ""
    obstacles: tuple[Obstacle, ...] = ()
    failure: EngineFailure | None = None
    restarts: int = 0
    node: str = ""
    address: str = ""
    holds_gpus: bool = False
    gone_by: float | None = None
    rejection: PodRejection | None = None
    need: HostNeed = NO_HOST_NEED
    queue: str = ""
    uid: str = ""
    command: tuple[str, ...] | None = None

    @property
    def is_gated(self) -> bool:
        """Whether the pod waits behind a scheduling gate: the scheduler does not look at it before."""
        return Obstacle.GATES in self.obstacles


def read_pod(body: Body, read_failure: ReadFailure) -> PodFacts:
    """Read one Pod object. ``read_failure`` knows the engines' error texts."""
    status = body.get("status") or {}
    conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    ready, scheduled = conditions.get(READY) or {}, conditions.get(SCHEDULED) or {}
    ready_since = _time(ready.get("lastTransitionTime")) if ready.get("status") == "True" else None
    bound_since = _time(scheduled.get("lastTransitionTime"))
    waits, message = scheduled.get("status") == "False", str(scheduled.get("message") or "")
    restarts, failure = _engine(status, read_failure)
    if failure is None and ready_since is None:
        restarts, failure = next(map(_of_other, _failing(status)), (restarts, None))
    startup = ready_since - bound_since if ready_since is not None and bound_since is not None else None
    return PodFacts(
        name=body["metadata"]["name"],
        bound=bool((body.get("spec") or {}).get("nodeName")),
        ready=ready_since is not None and not body["metadata"].get("deletionTimestamp"),
        ended=status.get("phase") in ("Succeeded", "Failed"),
        terminating=bool(body["metadata"].get("deletionTimestamp")),
        ready_since=ready_since,
        startup_seconds=startup if restarts == 0 else None,
        unscheduled_since=bound_since if waits else None,
        bound_since=None if waits else bound_since,
        scheduler_message=message if waits else "",
        obstacles=read_obstacles(str(scheduled.get("reason") or ""), message) if waits else (),
        failure=None if ready_since is not None else failure,
        restarts=restarts,
        node=str((body.get("spec") or {}).get("nodeName") or ""),
        address=str(status.get("podIP") or ""),
        holds_gpus=holds_gpus(body),
        gone_by=_time(body["metadata"].get("deletionTimestamp")),
        need=pod_need(body),
        rejection=_rejection(body),
        queue=str((body["metadata"].get("labels") or {}).get(QUEUE_LABEL) or ""),
        uid=str(body["metadata"].get("uid") or ""),
        command=engine_command(body),
    )


MOST_COMMAND_WORDS, LONGEST_COMMAND_WORD = 8, 64
"""Words of a command, and characters of a word, that are kept. Those of engines have a few."""


def engine_command(body: Body) -> tuple[str, ...] | None:
    """Return the command of the engine's container in a Pod; None if the container does not say how it is started.

    Every engine gets arguments, so a container with neither is one of which a part is left out.
    """
    engine: Body | None = next(filter(_is_engine, (body.get("spec") or {}).get("containers") or ()), None)
    if engine is None or ("command" not in engine and "args" not in engine):
        return None
    words = (engine.get("command") or ())[:MOST_COMMAND_WORDS]
    return tuple(str(word)[:LONGEST_COMMAND_WORD] for word in words)


def _rejection(body: Body) -> PodRejection | None:
    status, node = body.get("status") or {}, str((body.get("spec") or {}).get("nodeName") or "")
    born = _time(body["metadata"].get("creationTimestamp"))
    if status.get("phase") != "Failed" or not status.get("reason") or not node or born is None:
        return None
    return PodRejection(born, node, str(status["reason"]), str(status.get("message") or ""))


def _engine(status: Body, read_failure: ReadFailure) -> tuple[int, EngineFailure | None]:
    engine = next(filter(_is_engine, status.get("containerStatuses") or ()), None)
    if engine is None:
        return 0, None
    ended = (engine.get("lastState") or {}).get("terminated") or (engine.get("state") or {}).get("terminated")
    restarts = int(engine.get("restartCount") or 0)
    if not ended or ended.get("exitCode") == 0:
        waiting = (engine.get("state") or {}).get("waiting") or {}
        return restarts, _image_failure(waiting) or _runtime_failure(waiting, read_failure)
    return restarts, read_failure(str(ended.get("message") or ""), str(ended.get("reason") or ""))


def read_statuses(status: Body) -> list[Body]:
    """Return the statuses of containers that are read of a pod: the engine's, and the first one of others that fail."""
    engine = filter(_is_engine, status.get("containerStatuses") or ())
    return [*islice(engine, 1), *islice(_failing(status), 1)]


def _is_engine(container: Body) -> bool:
    """Whether it is the engine's container. The kubelet sorts statuses by name, so that it may be at any place."""
    return bool(container.get("name", ENGINE_CONTAINER) == ENGINE_CONTAINER)


def _failing(status: Body) -> Iterator[Body]:
    """Yield the statuses of containers other than the engine's that crashed, or that cannot run."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(field) or ():
            if not _is_engine(each) and not each.get("ready") and any(_ends(each)):
                yield each


def _ends(container: Body) -> Iterator[str]:
    """Yield what the kubelet says of a container that crashed or cannot run: first why it does not run, and its end."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating", "CrashLoopBackOff"):
        yield f"{waiting['reason']}: {waiting.get('message') or 'no message'}"
    for state in ("state", "lastState"):
        ended = (container.get(state) or {}).get("terminated") or {}
        if ended.get("exitCode"):
            last = next((line for line in reversed(str(ended.get("message") or "").splitlines()) if line.strip()), "")
            yield f"{ended.get('reason') or 'Error'}, exit code {ended['exitCode']}{last and f': {last.strip()}'}"


def _of_other(container: Body) -> tuple[int, EngineFailure]:
    """Return the restarts and the failure of a container other than the engine's, in its own name."""
    words = f"container {container['name']} failed, not the engine's: {next(_ends(container))}"
    return int(container.get("restartCount") or 0), EngineFailure(StartFailure.OTHER_CONTAINER, words[:MESSAGE_LIMIT])


def _image_failure(waiting: Body) -> EngineFailure | None:
    """Return the failure of a container whose image cannot be pulled: it did not crash, but it cannot serve."""
    reason = str(waiting.get("reason") or "")
    if reason not in ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError"):
        return None
    return EngineFailure.of_container(reason, str(waiting.get("message") or ""))


def _runtime_failure(waiting: Body, read_failure: ReadFailure) -> EngineFailure | None:
    """Return the failure of a container that its runtime cannot start, if the runtime's words name the cause."""
    if waiting.get("reason") not in ("CreateContainerError", "RunContainerError"):
        return None
    found = read_failure(str(waiting.get("message") or ""), "")
    return found if found.is_of_place else None


def _time(text: object) -> float | None:
    return from_rfc3339(str(text))
