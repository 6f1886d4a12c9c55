"""The objects of a router: who asks the endpoint picker, the picker, its InferencePool, and its rights.

In mode Standalone Envoys ask it. The model's own Service leads to them, so clients keep their address. A headless
Service names the ready replicas for the time in which the picker does not answer. The picker has pods of its own: if
it ends, all Envoys stay ready. In mode Gateway a Gateway of the cluster asks it, and an HTTPRoute leads from there to
the InferencePool.

Source of the HTTPRoute's fields: ``apis/v1/httproute_types.go`` of the Gateway API 1.5.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from plimsoll.domain.requests.routing import GatewayRef, Routing, RoutingMode
from plimsoll.domain.requests.workload import ENGINE_PORT, ENGINE_PORT_NAME, Manifest, WorkloadOptions
from plimsoll.render.names import (
    DEPLOYMENT_LABEL,
    PICKER_LABEL,
    ROUTER_LABEL,
    asked_name,
    deployment_labels,
    engines_name,
    gateway_path,
    metadata,
    picker_name,
    router_name,
)
from plimsoll.render.objects import stamped
from plimsoll.render.router_config import (
    PICKER_HEALTH_PORT,
    PICKER_METRICS_PORT,
    PICKER_PORT,
    PICKER_SERVICE,
    PickerFacts,
    picker_config,
    proxy_config,
)

POOL_GROUP = "inference.networking.k8s.io"
POOL_API = f"{POOL_GROUP}/v1"
EXTENSION_GROUP = "inference.networking.x-k8s.io"
"""The groups of the InferencePool, and of the objects that a picker reads next to it."""

GATEWAY_GROUP = "gateway.networking.k8s.io"
HTTP_ROUTE = "HTTPRoute"
_SERVICE = "Service"
_POOL = "InferencePool"

PICKER_RIGHTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ("pods",)),
    (POOL_GROUP, ("inferencepools",)),
    (EXTENSION_GROUP, ("inferencemodelrewrites", "inferenceobjectives")),
)
"""The kinds that a picker gets, lists and watches in its namespace. The operator may grant no more than it has."""

REQUESTS = {"cpu": "100m", "memory": "128Mi"}
LIMITS = {"memory": "512Mi"}
"""Of each container. Seen with two engines: the picker used 61 MiB and the Envoy 73 MiB."""

STOP_SECONDS = 15
"""How long a container may take to end after that."""

USER = 65532
"""The user that both images name themselves: nobody with a home."""


def router_objects(
    options: WorkloadOptions, routing: Routing, facts: PickerFacts, drain_seconds: int
) -> tuple[Manifest, ...]:
    """Return the objects of a router but for the model's own Service; what a pod needs comes before the Deployment.

    An HTTPRoute comes last: what it leads to is there by then.

    Args:
        options: the deployment's.
        routing: the router.
        facts: what its pickers are configured by.
        drain_seconds: how long a pod that ends serves on, because answers of engines pass it.
    """
    made = (
        _account(options),
        _role(options),
        _binding(options),
        _pool(options, routing),
        _policy(options, routing),
        *_services(options, routing),
        _picking(options, routing, facts),
        *_asking(options, routing, drain_seconds),
    )
    return tuple(map(stamped, made))


def is_part(manifest: Mapping[str, Any], mode: RoutingMode, name: str) -> bool:
    """Whether an object of the router of a deployment is needed in a mode.

    Args:
        manifest: the object.
        mode: the mode that is asked for.
        name: the deployment's.
    """
    kind, its_name = manifest["kind"], manifest["metadata"]["name"]
    if mode is RoutingMode.GATEWAY:
        of_envoys = router_name(name), engines_name(name), *((picker_name(name),) if kind == _SERVICE else ())
        return its_name not in of_envoys
    return mode is RoutingMode.STANDALONE and kind != HTTP_ROUTE and its_name != asked_name(name)


def is_of_router(manifest: Mapping[str, Any], name: str) -> bool:
    """Whether an object is one of the router of the deployment ``name``, in any mode: none of the engines' needs it."""
    names = router_name(name), picker_name(name), engines_name(name), asked_name(name)
    return manifest["kind"] in (HTTP_ROUTE, _POOL) or manifest["metadata"]["name"] in names


def _asking(options: WorkloadOptions, routing: Routing, drain_seconds: int) -> Iterator[Manifest]:
    """Yield who asks the picker: Envoys, or a route of a Gateway."""
    if routing.gateway is not None:
        yield _route(options, routing.gateway)
    else:
        yield _routing(options, routing, drain_seconds)
        yield _budget(options)


def _route(options: WorkloadOptions, gateway: GatewayRef) -> Manifest:
    """The HTTPRoute. Answers may take as long as they take: the usual limit of an Envoy is 15 s."""
    name, path = options.key.name, "/" if gateway.hostnames else gateway_path(options.key)
    parent = {"group": GATEWAY_GROUP, "kind": "Gateway", "namespace": gateway.key.namespace, "name": gateway.key.name}
    rule: Manifest = {
        "matches": [{"path": {"type": "PathPrefix", "value": path}}],
        "backendRefs": [{"group": POOL_GROUP, "kind": _POOL, "name": name}],
        "timeouts": {"request": "0s"},
    }
    if not gateway.hostnames:
        rewrite = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}
        rule["filters"] = [{"type": "URLRewrite", "urlRewrite": rewrite}]
    section = {"sectionName": gateway.listener} if gateway.listener else {}
    hosts = {"hostnames": list(gateway.hostnames)} if gateway.hostnames else {}
    return {
        "apiVersion": f"{GATEWAY_GROUP}/v1",
        "kind": HTTP_ROUTE,
        "metadata": _head(options, name),
        "spec": {"parentRefs": [parent | section], **hosts, "rules": [rule]},
    }


def _head(options: WorkloadOptions, name: str) -> Manifest:
    return metadata(options, name, deployment_labels(options.key.name))


def _of_router(options: WorkloadOptions) -> dict[str, str]:
    """The label of the router's pods. They have none of the engines', which count as replicas."""
    return {ROUTER_LABEL: options.key.name}


def _of_picker(options: WorkloadOptions) -> dict[str, str]:
    """The label of the picker's pod."""
    return {PICKER_LABEL: options.key.name}


def _account(options: WorkloadOptions) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _head(options, picker_name(options.key.name))}


def _role(options: WorkloadOptions) -> Manifest:
    rules = [
        {"apiGroups": [group], "resources": list(kinds), "verbs": ["get", "list", "watch"]}
        for group, kinds in PICKER_RIGHTS
    ]
    head = _head(options, picker_name(options.key.name))
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": head, "rules": rules}


def _binding(options: WorkloadOptions) -> Manifest:
    name = picker_name(options.key.name)
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": _head(options, name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": options.key.namespace}],
    }


def _pool(options: WorkloadOptions, routing: Routing) -> Manifest:
    """The InferencePool. A picker takes only ready replicas of it that are not being deleted."""
    name = options.key.name
    return {
        "apiVersion": POOL_API,
        "kind": _POOL,
        "metadata": _head(options, name),
        "spec": {
            "selector": {"matchLabels": {DEPLOYMENT_LABEL: name}},
            "targetPorts": [{"number": ENGINE_PORT}],
            "endpointPickerRef": {
                "group": "",
                "kind": _SERVICE,
                "name": picker_name(name) if routing.gateway is None else asked_name(name),
                "port": {"number": PICKER_PORT},
                "failureMode": "FailOpen",
            },
        },
    }


def _policy(options: WorkloadOptions, routing: Routing) -> Manifest:
    """The policy of connections to a picker: its router's, and everybody's to its metrics.

    The pods of a Gateway have the labels and the namespace that its controller chooses, so all may ask there.
    """
    asked = [{"port": port, "protocol": "TCP"} for port in (PICKER_PORT, PICKER_HEALTH_PORT)]
    routers = [{"podSelector": {"matchLabels": _of_router(options)}}]
    metrics = [{"port": PICKER_METRICS_PORT, "protocol": "TCP"}]
    asking: Manifest = {"ports": asked} if routing.gateway is not None else {"ports": asked, "from": routers}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _head(options, picker_name(options.key.name)),
        "spec": {
            "podSelector": {"matchLabels": _of_picker(options)},
            "policyTypes": ["Ingress"],
            "ingress": [asking, {"ports": metrics}],
        },
    }


def _services(options: WorkloadOptions, routing: Routing) -> Iterator[Manifest]:
    """Yield the Service by which a Gateway asks the picker, or the headless ones of the replicas and of the picker.

    Gateways know by the prefix of a port's name that it speaks gRPC.
    """
    name, of_picker = options.key.name, _of_picker(options)
    if routing.gateway is not None:
        port = {"name": "grpc-ext-proc", "port": PICKER_PORT, "protocol": "TCP"}
        yield _service(options, asked_name(name), {"selector": of_picker, "ports": [port]})
        return
    engines = {"name": "http", "port": ENGINE_PORT, "targetPort": ENGINE_PORT_NAME, "protocol": "TCP"}
    ports = (("picker", PICKER_PORT), ("health", PICKER_HEALTH_PORT))
    picker = [{"name": each, "port": port, "protocol": "TCP"} for each, port in ports]
    for its_name, selector, open_ports in (
        (engines_name(name), {DEPLOYMENT_LABEL: name}, [engines]),
        (picker_name(name), of_picker, picker),
    ):
        yield _service(options, its_name, {"clusterIP": "None", "selector": selector, "ports": open_ports})


def _service(options: WorkloadOptions, name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": "v1", "kind": _SERVICE, "metadata": _head(options, name), "spec": spec}


def _budget(options: WorkloadOptions) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _head(options, router_name(options.key.name)),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _of_router(options)}},
    }


def _picking(options: WorkloadOptions, routing: Routing, facts: PickerFacts) -> Manifest:
    """The Deployment of the picker. There is one: it alone knows which replica got which prefix."""
    pod = {"serviceAccountName": picker_name(options.key.name), "containers": [_picker(options, routing, facts)]}
    return _workload(options, picker_name(options.key.name), _of_picker(options), 1, pod)


def _routing(options: WorkloadOptions, routing: Routing, drain_seconds: int) -> Manifest:
    """The Deployment of the router."""
    ending = {"preStop": {"sleep": {"seconds": drain_seconds}}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _of_router(options)},
    }
    pod = {
        "containers": [{**_proxy(options, routing), "lifecycle": ending}],
        "topologySpreadConstraints": [spread],
        "terminationGracePeriodSeconds": drain_seconds + STOP_SECONDS,
        "automountServiceAccountToken": False,
    }
    return _workload(options, router_name(options.key.name), _of_router(options), routing.replicas, pod)


def _workload(options: WorkloadOptions, name: str, labels: dict[str, str], replicas: int, pod: Manifest) -> Manifest:
    """A Deployment whose pods go where the user's may go."""
    user = options.pod
    wishes: Manifest = {
        "tolerations": list(user.tolerations),
        "imagePullSecrets": list(user.image_pull_secrets),
        "priorityClassName": user.priority_class_name,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _head(options, name),
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **pod,
                    "enableServiceLinks": False,
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": USER,
                        "runAsGroup": USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    **{name: value for name, value in wishes.items() if value},
                },
            },
        },
    }


def _proxy(options: WorkloadOptions, routing: Routing) -> Manifest:
    name = options.key.name
    config = json.dumps(proxy_config(engines_name(name), picker_name(name)), separators=(",", ":"))
    return {
        "name": "proxy",
        "image": routing.images.proxy,
        "command": ["envoy"],
        "args": ["--config-yaml", config, "--log-level", "warning", "--disable-hot-restart", "--concurrency", "2"],
        "ports": [{"name": ENGINE_PORT_NAME, "containerPort": ENGINE_PORT, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": ENGINE_PORT_NAME}, "periodSeconds": 5},
        **_confined(),
    }


def _picker(options: WorkloadOptions, routing: Routing, facts: PickerFacts) -> Manifest:
    health = {"port": PICKER_HEALTH_PORT, "service": PICKER_SERVICE}
    ports = (("picker", PICKER_PORT), ("health", PICKER_HEALTH_PORT), ("metrics", PICKER_METRICS_PORT))
    is_secure = routing.gateway is not None and routing.gateway.picker_tls
    return {
        "name": "picker",
        "image": routing.images.picker,
        "args": [
            f"--pool-name={options.key.name}",
            f"--pool-namespace={options.key.namespace}",
            f"--pool-group={POOL_GROUP}",
            f"--config-text={json.dumps(picker_config(facts), separators=(',', ':'))}",
            f"--secure-serving={'true' if is_secure else 'false'}",
            "--metrics-endpoint-auth=false",
            "--tracing=false",
        ],
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports],
        "readinessProbe": {"grpc": health, "periodSeconds": 2},
        "livenessProbe": {"grpc": health, "initialDelaySeconds": 15, "periodSeconds": 10},
        **_confined(),
    }


def _confined() -> Manifest:
    """The restricted Pod Security Standard, and requests that are small and stated."""
    return {
        "resources": {"requests": REQUESTS, "limits": LIMITS},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
