"""The configurations of a router's two processes: the endpoint picker, and the Envoy that asks it.

The picker sees each request before it is sent, and no response: one that ends breaks no answer that an engine is
writing. Envoy asks it only while it is healthy. A request that was not sent to an engine is tried again, without the
picker if it does not answer. So nothing is lost with a picker, and without one each ready replica gets its turn.

Sources: the types of ``EndpointPickerConfig`` in release 1.5.0 of the Gateway API Inference Extension
(``apix/config/v1alpha1``, ``pkg/epp/framework/plugins``), and those of Envoy 1.39 and 1.40 (``envoy.extensions``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from plimsoll.domain.engines.engine_choice import DEFAULT_ENGINE
from plimsoll.domain.requests.workload import ENGINE_PORT, Manifest
from plimsoll.engines.metrics import EngineMetrics

PICKER_PORT = 9002
PICKER_HEALTH_PORT = 9003
PICKER_METRICS_PORT = 9090
"""The ports of the picker, which are its defaults."""

PICKING_PORT = 8001
ADMIN_PORT = 19000
"""Ports of Envoy that listen on loopback alone."""

PICKER_SERVICE = "inference-extension"
"""Its name in the picker's gRPC health check (``cmd/epp/runner/health.go``)."""

LONGEST_HOLD_SECONDS = 3600
"""The longest that Envoy waits for the picker (``ExternalProcessor.message_timeout``), and so for a replica."""

RETRY_AFTER_SECONDS = 30
"""When a client may try again that no replica has answered."""

PREFIX_WEIGHT, QUEUE_WEIGHT, CACHE_WEIGHT, ADAPTER_WEIGHT = 3, 2, 2, 1
"""The weights of a known prefix, a short queue, free KV cache and a loaded adapter. Sources: the defaults of the charts
of the Gateway API Inference Extension 1.5.0 and llm-d (queue 2, KV cache 2, prefix 3)."""

FULL_CACHE = 0.95
"""The share of the KV cache in use from which on a replica gets no more requests. Replicas are sized to be filled."""

FULL_QUEUE = 5
"""The requests that may wait in a replica. More wait in the picker, which knows all replicas. Source: its default."""

MOST_PREFIX_BLOCKS = 4096
"""Blocks of a prompt that are compared: 65,536 tokens in blocks of 16. The default, 256, ends at 4,096 tokens."""

_USUAL_ENGINE = "served"
"""The name of vLLM in the picker's configuration, if the deployment runs it."""

_DESTINATION = "x-gateway-destination-endpoint"
"""The header by which the picker names the replica. Source: the endpoint picker protocol (its proposal 004)."""

_NOT_SENT = "x-plimsoll-not-sent"
_CHECK_PATH = "/plimsoll/picker"
_TYPES = "type.googleapis.com/envoy.extensions"
_NO_LIMIT = "0s"
_BAD_GATEWAY = 502


@dataclass(frozen=True, slots=True)
class PickerFacts:
    """The facts that the picker's configuration is made from.

    Attributes:
        metrics: the names of the engine's metrics.
        engine: the name of the engine.
        block_tokens: tokens of one block of the KV cache.
        cache_tokens: tokens that one replica's KV cache holds, and a host tier if there is one.
        hold_seconds: how long a request may wait for a replica.
        has_adapters: whether requests may name LoRA adapters.
    """

    metrics: EngineMetrics
    block_tokens: int
    cache_tokens: int
    hold_seconds: int
    has_adapters: bool = False
    engine: str = DEFAULT_ENGINE


def picker_config(facts: PickerFacts) -> Manifest:
    """Return the picker's configuration: what it reads of engines, how it scores them, and how long it holds requests.

    It remembers as many blocks of a replica as that replica's cache holds: one that remembers more takes evicted
    prefixes for known, one that remembers less sends them elsewhere.

    Pods of other engines than vLLM have a label that names their engine (``ENGINE_TYPE_LABEL``), so both are read while
    one takes over from the other. The picker knows vLLM's and SGLang's names itself, and takes pods without the label
    for those of the default engine (``plugins/datalayer/extractor/metrics/factories.go``).
    """
    names, is_usual = facts.metrics, facts.engine == DEFAULT_ENGINE
    engine = {
        "name": _USUAL_ENGINE if is_usual else facts.engine,
        "queuedRequestsSpec": names.waiting,
        "runningRequestsSpec": names.running,
        "kvUsageSpec": names.kv_usage,
        "loraSpec": names.adapters if facts.has_adapters else "",
    }
    prefix = {
        "autoTune": False,
        "blockSizeTokens": facts.block_tokens,
        "maxPrefixBlocksToMatch": MOST_PREFIX_BLOCKS,
        "lruCapacityPerServer": max(1, facts.cache_tokens // facts.block_tokens),
    }
    scorers = {
        "queue-scorer": QUEUE_WEIGHT,
        "kv-cache-utilization-scorer": CACHE_WEIGHT,
        "prefix-cache-scorer": PREFIX_WEIGHT,
    }
    if facts.has_adapters and names.adapters:
        scorers["lora-affinity-scorer"] = ADAPTER_WEIGHT
    return {
        "apiVersion": "inference.networking.x-k8s.io/v1alpha1",
        "kind": "EndpointPickerConfig",
        "featureGates": ["flowControl"],
        "plugins": [
            *({"type": scorer} for scorer in scorers),
            {"type": "approx-prefix-cache-producer", "parameters": prefix},
            {
                "type": "utilization-detector",
                "parameters": {"kvCacheUtilThreshold": FULL_CACHE, "queueDepthThreshold": FULL_QUEUE},
            },
            {"type": "metrics-data-source", "parameters": {"path": names.path}},
            {
                "type": "core-metrics-extractor",
                "parameters": {
                    "defaultEngine": _USUAL_ENGINE if is_usual else DEFAULT_ENGINE,
                    "engineConfigs": [engine],
                },
            },
        ],
        "schedulingProfiles": [
            {
                "name": "default",
                "plugins": [{"pluginRef": scorer, "weight": weight} for scorer, weight in scorers.items()],
            }
        ],
        "saturationDetector": {"pluginRef": "utilization-detector"},
        "dataLayer": {
            "sources": [{"pluginRef": "metrics-data-source", "extractors": [{"pluginRef": "core-metrics-extractor"}]}]
        },
        "flowControl": {"defaultRequestTTL": f"{facts.hold_seconds}s"},
    }


def proxy_config(engines: str, picker: str) -> Manifest:
    """Return Envoy's configuration.

    A request passes two listeners of the same Envoy. The outer one takes it from the client, and sends it to the inner
    one as long as the picker is healthy, else to any ready replica. The inner one asks the picker, and sends it to the
    replica that was picked. If it was sent nowhere, the outer one tries again. A client cannot name the replica itself.

    Args:
        engines: the name of the headless Service of all ready replicas.
        picker: that of the picker.
    """
    return {
        "admin": {"address": _address("127.0.0.1", ADMIN_PORT)},
        "static_resources": {
            "listeners": [
                _listener("clients", "0.0.0.0", ENGINE_PORT, [_to_picked()], []),  # noqa: S104 - all pods may ask
                _listener("picking", "127.0.0.1", PICKING_PORT, [_check_route(), _to_replica()], [_check(), _asking()]),
            ],
            "clusters": [_picked(engines), _replica(), _picker(picker)],
        },
    }


def hold_seconds(start_seconds: float) -> int:
    """Return how long a request may wait for a replica that takes so long to start: half as long again."""
    return min(LONGEST_HOLD_SECONDS, max(60, math.ceil(1.5 * start_seconds)))


def _to_picked() -> Manifest:
    again = {
        "retry_on": "connect-failure,refused-stream,retriable-headers",
        "num_retries": 4,
        "retriable_headers": [{"name": _NOT_SENT, "present_match": True}],
        "retry_back_off": {"base_interval": "0.05s", "max_interval": "0.5s"},
        "retry_priority": {
            "name": "envoy.retry_priorities.previous_priorities",
            "typed_config": {
                "@type": f"{_TYPES}.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig",
                "update_frequency": 1,
            },
        },
        "retry_host_predicate": [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {"@type": f"{_TYPES}.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
            }
        ],
        "host_selection_retry_max_attempts": 5,
    }
    return {
        "match": {"prefix": "/"},
        "route": {**_route("picked"), "retry_policy": again},
        "request_headers_to_remove": [_DESTINATION],
        "response_headers_to_remove": [_NOT_SENT],
    }


def _to_replica() -> Manifest:
    return {"match": {"prefix": "/"}, "route": _route("replica")}


def _route(cluster: str) -> Manifest:
    """A route without a time limit: a long answer is no fault."""
    return {"cluster": cluster, "timeout": _NO_LIMIT, "idle_timeout": _NO_LIMIT}


def _check_route() -> Manifest:
    """The address of the health check, about which no picker is asked."""
    off = {"@type": f"{_TYPES}.filters.http.ext_proc.v3.ExtProcPerRoute", "disabled": True}
    return {
        "match": {"path": _CHECK_PATH},
        "direct_response": {"status": 200},
        "typed_per_filter_config": {"ask-picker": off},
    }


def _check() -> Manifest:
    """The answer to the health check: whether the picker is healthy."""
    return _filter(
        "check",
        "filters.http.health_check.v3.HealthCheck",
        {
            "pass_through_mode": False,
            "headers": [{"name": ":path", "string_match": {"exact": _CHECK_PATH}}],
            "cluster_min_healthy_percentages": {"picker": {"value": 100}},
        },
    )


def _asking() -> Manifest:
    return _filter(
        "ask-picker",
        "filters.http.ext_proc.v3.ExternalProcessor",
        {
            "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}},
            "status_on_error": {"code": _BAD_GATEWAY},
            "message_timeout": f"{LONGEST_HOLD_SECONDS}s",
            "processing_mode": {
                "request_header_mode": "SEND",
                "request_body_mode": "FULL_DUPLEX_STREAMED",
                "request_trailer_mode": "SEND",
                "response_header_mode": "SKIP",
                "response_body_mode": "NONE",
                "response_trailer_mode": "SKIP",
            },
        },
    )


def _local_replies() -> Manifest:
    """Marks of answers that Envoy gives itself: a request that no engine has got, and one that may come again later.

    Those of the picker have other statuses than that of a failed question: 429 (its queue is full), 503 (waited too
    long), and 500 if no replica is ready for a request without a body, which is 503 for clients.
    """
    unsent = {"or_filter": {"filters": [_has_status(_BAD_GATEWAY), {"response_flag_filter": {"flags": ["UF"]}}]}}
    later = [{"header": {"key": "retry-after", "value": str(RETRY_AFTER_SECONDS)}}]
    return {
        "mappers": [
            {"filter": unsent, "headers_to_add": [{"header": {"key": _NOT_SENT, "value": "true"}}]},
            {"filter": _has_status(500), "status_code": 503, "headers_to_add": later},
            {"filter": _has_status(503), "headers_to_add": later},
        ]
    }


def _has_status(status: int) -> Manifest:
    value = {"default_value": status, "runtime_key": "plimsoll"}
    return {"status_code_filter": {"comparison": {"op": "EQ", "value": value}}}


def _listener(name: str, host: str, port: int, routes: Sequence[Manifest], filters: Sequence[Manifest]) -> Manifest:
    router = _filter("router", "filters.http.router.v3.Router", {})
    manager = _filter(
        name,
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        {
            "stat_prefix": name,
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": list(routes)}]},
            "http_filters": [*filters, router],
            "local_reply_config": _local_replies(),
            "stream_idle_timeout": _NO_LIMIT,
        },
    )
    return {"name": name, "address": _address(host, port), "filter_chains": [{"filters": [manager]}]}


def _picked(engines: str) -> Manifest:
    """The inner listener, and any ready replica for as long as that one is not healthy."""
    spare = _endpoint(engines, ENGINE_PORT)
    spare["endpoint"]["health_check_config"] = {"disable_active_health_check": True}
    return {
        "name": "picked",
        "type": "STRICT_DNS",
        "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
        "health_checks": [_each_second({"http_health_check": {"path": _CHECK_PATH}})],
        "load_assignment": {
            "cluster_name": "picked",
            "endpoints": [
                {"priority": 0, "lb_endpoints": [_endpoint("127.0.0.1", PICKING_PORT)]},
                {"priority": 1, "lb_endpoints": [spare]},
            ],
        },
    }


def _replica() -> Manifest:
    return {
        "name": "replica",
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": _DESTINATION},
    }


def _picker(name: str) -> Manifest:
    options = {
        "@type": f"{_TYPES}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    there = _endpoint(name, PICKER_PORT)
    there["endpoint"]["health_check_config"] = {"port_value": PICKER_HEALTH_PORT}
    return {
        "name": "picker",
        "type": "STRICT_DNS",
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
        "health_checks": [_each_second({"grpc_health_check": {"service_name": PICKER_SERVICE}})],
        "load_assignment": {"cluster_name": "picker", "endpoints": [{"lb_endpoints": [there]}]},
    }


def _each_second(check: Manifest) -> Manifest:
    often = ("timeout", "interval", "no_traffic_interval", "no_traffic_healthy_interval")
    return {**dict.fromkeys(often, "1s"), "unhealthy_threshold": 1, "healthy_threshold": 1, **check}


def _endpoint(host: str, port: int) -> Manifest:
    return {"endpoint": {"address": _address(host, port)}}


def _address(host: str, port: int) -> Manifest:
    return {"socket_address": {"address": host, "port_value": port}}


def _filter(name: str, kind: str, options: Manifest) -> Manifest:
    return {"name": name, "typed_config": {"@type": f"{_TYPES}.{kind}", **options}}
