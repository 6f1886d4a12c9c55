"""Settings of the operator process, from environment variables; a wrong one stops it with an error that names it."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from plimsoll.adapters.prometheus.access import LABEL_PAIRS, NO_PROOF, LabelPair, PrometheusAccess
from plimsoll.adapters.prometheus.questions import USUAL_METRICS, GatewayMetrics
from plimsoll.app.election import lease_times as times
from plimsoll.app.election.lease_times import LeaseTimes
from plimsoll.decision.results.manifests import USUAL_TOOL
from plimsoll.decision.world import ClusterSettings
from plimsoll.domain.cluster.gpus import Billing, Vendor
from plimsoll.domain.decisions.latency import Objective
from plimsoll.domain.engines.images import PUBLIC_REGISTRIES, REGISTRIES, EngineImages, registries_in
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.requests.routing import USUAL_IMAGES, RouterImages
from plimsoll.domain.requests.serving import ClusterDefaults
from plimsoll.domain.requests.weights import CopyTool
from plimsoll.placement.demands.clocks import LEAST_SECONDS
from plimsoll.placement.solvers import Overload

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")

_LABEL_PAIR = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*/[a-zA-Z_][a-zA-Z0-9_]*")
"""Names of two labels of Prometheus."""

_LONGEST_COUNT = 5
"""Digits."""

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
"""Names of a label and of a metric of Prometheus."""

BILLINGS: Mapping[str, Billing] = {"owned": Billing.OWNED, "onDemand": Billing.ON_DEMAND}
"""By the chart's words."""

_OF_ONE_PROCESS = frozenset(
    {"identity", "standby", "lease_times", "metrics_port", "health_port", "log_level", "cache_dir", "copy_tool"}
)
"""Settings that two processes may set differently and still make the same decisions."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a cluster admin; the chart sets each by its environment variable."""

    namespace: str = "plimsoll-system"
    """The operator's namespace, which also has its prices ConfigMap and its lease."""

    watch_namespaces: tuple[str, ...] = ()
    """Namespaces whose InferenceDeployments are served. Empty: all, with rights in the whole cluster."""

    read_all_pods: bool = False
    """Whether to read pods of all namespaces although only some are served, so that GPUs in use there do not count as
    free."""

    fleet_file: Path | None = None
    """File with the nodes (as ``kubectl get nodes -o yaml`` writes them), for an operator that may not read nodes."""

    node_groups: str = ""
    """JSON list of nodes that could be added; see ``plimsoll.api.node_groups``. Empty: none."""

    read_node_pools: bool = False
    """Whether to read Karpenter's NodePools, which are nodes that could be added."""

    approvals: bool = False
    """Whether to write proposals as objects and to carry out those that are approved. Only an admission policy checks
    who approves, so the chart turns it on together with that policy."""

    objective: Objective = Objective.BALANCED
    """How much speed is worth to deployments without ``spec.objective``."""

    gpu_vendors: tuple[Vendor, ...] = ()
    """The vendors whose GPUs deployments without ``spec.gpu.vendors`` may use. Empty: every vendor."""

    billing: Billing | None = None
    """Whether the dollars of GPU nodes end with their use. None: as their labels and the node groups say."""

    overload: Overload = Overload.SENIORITY
    """Who waits if not all replicas have a place."""

    learn_from_others: bool = True
    """Whether the memory that engines report also corrects the estimates of other deployments. Without it, each
    deployment learns from its own engines only."""

    rebalancing_suspended: bool = False
    """Whether the live loops of all deployments decide nothing and carry out nothing, not even what was approved."""

    rebalancing_moves_per_hour: int = 12
    """Most moves and changes of engine settings in any 60 minutes, all deployments together, that nobody has approved.
    One in five minutes: large engines take about so long to start, so that few are away at the same time."""

    lease_name: str = "plimsoll"
    """The Lease that says which process writes."""

    identity: str = ""
    """This process's name in the lease. A pod's name is suitable: its containers run one after the other."""

    standby: bool = False
    """Whether to wait while another process holds the lease. If not, the process ends and reports who holds it."""

    lease_times: LeaseTimes = times.USUAL
    """How long the lease lasts, how long its holder writes after a renewal, and how often a standby looks at it."""

    prometheus_url: str | None = None
    """Base URL of Prometheus. None: the pods' own metrics are read, unless ``direct_scrape`` is off."""

    prometheus_access: PrometheusAccess = NO_PROOF
    """Files with what Prometheus asks for: token, password, certificate, headers. They are read anew every time."""

    prometheus_labels: tuple[LabelPair, ...] = LABEL_PAIRS
    """Labels that hold the namespace and the name of a pod, in the order in which they are tried."""

    gateway_metrics: GatewayMetrics = USUAL_METRICS
    """Names under which Prometheus knows the queue of a gateway."""

    scrape_annotations: bool = False
    """Whether engines' pods get ``prometheus.io`` annotations. A change restarts engines, pool by pool."""

    direct_scrape: bool = True
    """Whether to read the metrics of the engines' pods if no Prometheus is configured. If neither is there, nothing
    is rebalanced, and the status says so."""

    prices_configmap: str = "plimsoll-prices"
    """ConfigMap whose data are ``GPU type: US dollars per GPU and hour``, or a whole list as ``prices.csv``. It
    replaces the catalogue's prices."""

    pod_policy: str = ""
    """JSON with the pod options that are allowed; see ``plimsoll.api.checks.pod_policy``. Empty: its defaults."""

    engine_image_nvidia: str = ""
    """Image of engines on NVIDIA GPUs; without a tag it gets the release's own tag. Empty: vLLM's own image."""

    engine_image_amd: str = ""
    """The same for AMD GPUs."""

    engine_registry: str = ""
    """Registry for engine images whose reference names none, e.g. a mirror. Empty: none."""

    copy_tool: CopyTool = USUAL_TOOL
    """Plimsoll's own image and the hub, for Jobs that copy weights to claims."""

    router_images: RouterImages = USUAL_IMAGES
    """The images of routers: the endpoint picker and the Envoy."""

    image_registries: tuple[str, ...] = PUBLIC_REGISTRIES
    """Registries that are asked for the platforms of images. Empty: none."""

    metrics_port: int = 8080
    """Port of our own Prometheus metrics."""

    health_port: int = 8081
    """Port of ``/healthz`` and ``/readyz``."""

    log_level: str = "INFO"
    """Python's level names."""

    cache_dir: Path = Path("/tmp/plimsoll")  # noqa: S108 - the chart mounts an emptyDir of the pod's own there
    """Where model configurations from the Hub are kept."""

    relist_seconds: float = 300.0
    """How often watches are checked against an authoritative LIST. They lose events; five minutes limit the harm."""

    signals_seconds: float = 5.0
    """How often is looked which pods have a new sample. A third of Prometheus' common 15 s scrape, so that none waits
    long."""

    stranded_seconds: float = 10.0
    """How long the scheduler may fail to bind a pod before its replica gets another place. This covers the moment
    between a pod's end and the return of its GPUs."""

    move_seconds: float = LEAST_SECONDS
    """The least time that the new replicas of a move have until they must serve. Then the move is taken back."""

    @property
    def images(self) -> EngineImages:
        """The engines' images."""
        return EngineImages(self.engine_image_nvidia, self.engine_image_amd, self.engine_registry)

    @property
    def defaults(self) -> ClusterDefaults:
        """The choices for deployments that choose nothing."""
        return ClusterDefaults(self.objective, self.gpu_vendors)

    @property
    def of_cluster(self) -> ClusterSettings:
        """The settings on which decisions about all deployments depend."""
        return ClusterSettings(
            learns_from_others=self.learn_from_others,
            rebalancing_suspended=self.rebalancing_suspended,
            moves_per_hour=self.rebalancing_moves_per_hour,
            move_seconds=self.move_seconds,
            billing=self.billing,
        )

    def digest(self) -> str:
        """Hex digits that differ if two processes would decide differently."""
        values = {field.name: str(getattr(self, field.name)) for field in fields(self)}
        shared = sorted((name, value) for name, value in values.items() if name not in _OF_ONE_PROCESS)
        return hashlib.sha256(repr(shared).encode()).hexdigest()[:12]

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
        """Read ``PLIMSOLL_*``. Raises :class:`InvalidInput` naming the variable."""
        given = os.environ if environment is None else environment
        plain = Settings()
        in_a_pod = bool(given.get("KUBERNETES_SERVICE_HOST"))
        return Settings(
            namespace=given.get("PLIMSOLL_NAMESPACE") or plain.namespace,
            watch_namespaces=_namespaces(given, "PLIMSOLL_WATCH_NAMESPACES"),
            read_all_pods=_switch(given, "PLIMSOLL_READ_ALL_PODS", default=plain.read_all_pods),
            fleet_file=Path(file) if (file := given.get("PLIMSOLL_FLEET_FILE")) else None,
            node_groups=given.get("PLIMSOLL_NODE_GROUPS") or "",
            read_node_pools=_switch(given, "PLIMSOLL_READ_NODE_POOLS", default=plain.read_node_pools),
            approvals=_switch(given, "PLIMSOLL_APPROVALS", default=plain.approvals),
            objective=_objective(given, "PLIMSOLL_OBJECTIVE", plain.objective),
            gpu_vendors=_vendors(given, "PLIMSOLL_GPU_VENDORS"),
            billing=_billing(given, "PLIMSOLL_BILLING"),
            overload=_overload(given, "PLIMSOLL_OVERLOAD", plain.overload),
            learn_from_others=_switch(given, "PLIMSOLL_LEARN_FROM_OTHERS", default=plain.learn_from_others),
            rebalancing_suspended=_switch(given, "PLIMSOLL_REBALANCING_SUSPENDED", default=plain.rebalancing_suspended),
            rebalancing_moves_per_hour=_count(
                given, "PLIMSOLL_REBALANCING_MOVES_PER_HOUR", plain.rebalancing_moves_per_hour
            ),
            lease_name=given.get("PLIMSOLL_LEASE_NAME") or plain.lease_name,
            identity=given.get("PLIMSOLL_IDENTITY") or f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}",
            standby=_switch(given, "PLIMSOLL_STANDBY", default=in_a_pod),
            lease_times=_lease_times(given, plain.lease_times),
            prometheus_url=given.get("PLIMSOLL_PROMETHEUS_URL") or None,
            prometheus_access=_access(given),
            prometheus_labels=_label_pairs(given, "PLIMSOLL_PROMETHEUS_LABELS", plain.prometheus_labels),
            gateway_metrics=_gateway_metrics(given, plain.gateway_metrics),
            scrape_annotations=_switch(given, "PLIMSOLL_SCRAPE_ANNOTATIONS", default=plain.scrape_annotations),
            direct_scrape=_switch(given, "PLIMSOLL_DIRECT_SCRAPE", default=plain.direct_scrape),
            prices_configmap=given.get("PLIMSOLL_PRICES_CONFIGMAP") or plain.prices_configmap,
            pod_policy=given.get("PLIMSOLL_POD_POLICY") or "",
            engine_image_nvidia=given.get("PLIMSOLL_ENGINE_IMAGE_NVIDIA") or "",
            engine_image_amd=given.get("PLIMSOLL_ENGINE_IMAGE_AMD") or "",
            engine_registry=given.get("PLIMSOLL_ENGINE_REGISTRY") or "",
            copy_tool=CopyTool(given.get("PLIMSOLL_IMAGE") or plain.copy_tool.image, given.get("HF_ENDPOINT") or ""),
            router_images=RouterImages(
                given.get("PLIMSOLL_PICKER_IMAGE") or plain.router_images.picker,
                given.get("PLIMSOLL_PROXY_IMAGE") or plain.router_images.proxy,
            ),
            image_registries=registries_in(given.get(REGISTRIES) or ""),
            metrics_port=_port(given, "PLIMSOLL_METRICS_PORT", plain.metrics_port),
            health_port=_port(given, "PLIMSOLL_HEALTH_PORT", plain.health_port),
            log_level=(given.get("PLIMSOLL_LOG_LEVEL") or plain.log_level).upper(),
            cache_dir=Path(given.get("PLIMSOLL_CACHE_DIR") or plain.cache_dir),
            relist_seconds=_seconds(given, "PLIMSOLL_RELIST_SECONDS", plain.relist_seconds),
            signals_seconds=_seconds(given, "PLIMSOLL_SIGNALS_SECONDS", plain.signals_seconds),
            stranded_seconds=_seconds(given, "PLIMSOLL_STRANDED_SECONDS", plain.stranded_seconds),
            move_seconds=_seconds(given, "PLIMSOLL_MOVE_SECONDS", plain.move_seconds),
        )


def _lease_times(given: Mapping[str, str], default: LeaseTimes) -> LeaseTimes:
    return LeaseTimes(
        _count(given, times.LEASE, default.lease),
        _seconds(given, times.RENEW_DEADLINE, default.renew_deadline),
        _seconds(given, times.RETRY, default.retry),
    )


def _access(given: Mapping[str, str]) -> PrometheusAccess:
    return PrometheusAccess(
        token_file=_file(given, "PLIMSOLL_PROMETHEUS_TOKEN_FILE"),
        user=given.get("PLIMSOLL_PROMETHEUS_USER") or "",
        password_file=_file(given, "PLIMSOLL_PROMETHEUS_PASSWORD_FILE"),
        certificate_file=_file(given, "PLIMSOLL_PROMETHEUS_CERTIFICATE_FILE"),
        key_file=_file(given, "PLIMSOLL_PROMETHEUS_KEY_FILE"),
        ca_file=_file(given, "PLIMSOLL_PROMETHEUS_CA_FILE"),
        headers_file=_file(given, "PLIMSOLL_PROMETHEUS_HEADERS_FILE"),
    )


def _file(given: Mapping[str, str], name: str) -> Path | None:
    text = given.get(name) or ""
    if text and not Path(text).is_absolute():
        raise InvalidInput(name, text, "Write the absolute path of a file.")
    return Path(text) if text else None


def _label_pairs(
    given: Mapping[str, str], name: str, default: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    listed = [part.strip() for part in (given.get(name) or "").split(",") if part.strip()]
    for pair in listed:
        if not _LABEL_PAIR.fullmatch(pair):
            raise InvalidInput(name, pair, "Write NAMESPACE_LABEL/POD_LABEL, several of them separated by commas.")
    pairs = [pair.partition("/") for pair in dict.fromkeys(listed)]
    return tuple((namespace, pod) for namespace, _, pod in pairs) or default


def _gateway_metrics(given: Mapping[str, str], default: GatewayMetrics) -> GatewayMetrics:
    names, label = "PLIMSOLL_GATEWAY_QUEUE_METRICS", "PLIMSOLL_GATEWAY_POOL_LABEL"
    listed = tuple(dict.fromkeys(part.strip() for part in (given.get(names) or "").split(",") if part.strip()))
    for name in listed:
        if not _METRIC.fullmatch(name):
            raise InvalidInput(names, name, "Write names of metrics, separated by commas.")
    pool = given.get(label) or default.pool_label
    if not _LABEL.fullmatch(pool):
        raise InvalidInput(label, pool, "Write the name of a label.")
    return GatewayMetrics(listed or default.names, pool)


def _namespaces(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    listed = tuple(sorted({part.strip() for part in (given.get(name) or "").split(",") if part.strip()}))
    for namespace in listed:
        if not _NAME.fullmatch(namespace):
            raise InvalidInput(name, namespace, "Write names of namespaces, separated by commas.")
    return listed


def _objective(given: Mapping[str, str], name: str, default: Objective) -> Objective:
    text = given.get(name) or default.value
    if text not in set(Objective):
        raise InvalidInput(name, text, f"Write {', '.join(Objective)}.")
    return Objective(text)


def _billing(given: Mapping[str, str], name: str) -> Billing | None:
    text = given.get(name) or ""
    if text and text not in BILLINGS:
        raise InvalidInput(name, text, f"Write {' or '.join(BILLINGS)}, or nothing: then it is read from the nodes.")
    return BILLINGS[text] if text else None


def _overload(given: Mapping[str, str], name: str, default: Overload) -> Overload:
    text = given.get(name) or default.value
    if text not in set(Overload):
        raise InvalidInput(name, text, f"Write {' or '.join(Overload)}.")
    return Overload(text)


def _vendors(given: Mapping[str, str], name: str) -> tuple[Vendor, ...]:
    listed = [part.strip() for part in (given.get(name) or "").split(",") if part.strip()]
    known = {vendor.value.upper(): vendor for vendor in Vendor}
    for vendor in listed:
        if vendor not in known:
            raise InvalidInput(name, vendor, f"Write {' or '.join(known)}, separated by commas.")
    return tuple(dict.fromkeys(known[vendor] for vendor in listed))


def _switch(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = (given.get(name) or "").lower()
    if text not in ("", "true", "false"):
        raise InvalidInput(name, text, "Write true or false.")
    return default if not text else text == "true"


def _port(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name) or str(default)
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 2**16:
        raise InvalidInput(name, text, "Write a TCP port, 1 to 65535.")
    return int(text)


def _count(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name) or str(default)
    if not (text.isascii() and text.isdigit()) or len(text) > _LONGEST_COUNT:
        raise InvalidInput(name, text, "Write a whole number, 0 to 99999.")
    return int(text)


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name) or str(default)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 86_400:  # noqa: PLR2004 - a day
        raise InvalidInput(name, text, "Write seconds, more than 0 and less than a day.")
    return value
