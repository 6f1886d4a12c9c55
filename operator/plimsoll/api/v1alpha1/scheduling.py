"""Where pods go, and the names that they know: tolerations, affinity, spread and DNS, as in core/v1.

What is open in the CRD (:class:`OpenModel`) is checked here alone, with the rules of ``k8s.io/kubernetes``,
``pkg/apis/core/validation``.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from plimsoll.api.v1alpha1.base import LARGEST_BOUND, ApiModel, OpenModel, optional, rule
from plimsoll.api.v1alpha1.values import LABEL_KEY, DnsLabel, DnsSubdomain

_LabelKey = Annotated[str, Field(max_length=317, pattern=rf"^{LABEL_KEY}$")]
_LabelValue = Annotated[str, Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")]
_Weight = Annotated[int, Field(ge=1, le=100)]
_Names = Annotated[list[DnsLabel], Field(max_length=32)]

MOST_TERMS = 8
"""The most terms of a user's node affinity. Each is joined with each of the operator's own."""

MOST_EXPRESSIONS = 16


class Toleration(ApiModel):
    """A toleration, as in a pod."""

    cel_rules = (
        rule(
            "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
            "tolerations: without a key the operator must be Exists",
        ),
        rule(
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            "tolerations: with operator Exists the value must be empty",
        ),
        rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "tolerations: tolerationSeconds is for effect NoExecute alone",
        ),
    )
    key: Annotated[str, Field(max_length=317, pattern=rf"^({LABEL_KEY})?$")] | None = optional(
        "Key of the taint. Empty with Exists: matches every taint."
    )
    operator: Annotated[str, Field(pattern=r"^(Exists|Equal)?$")] | None = optional("Exists or Equal (the default).")
    value: Annotated[str, Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")] | None = (
        optional("Value of the taint, for Equal.")
    )
    effect: Annotated[str, Field(pattern=r"^(NoSchedule|PreferNoSchedule|NoExecute)?$")] | None = optional(
        "NoSchedule, PreferNoSchedule or NoExecute. Empty: matches every effect."
    )
    toleration_seconds: Annotated[int, Field(ge=-LARGEST_BOUND, le=LARGEST_BOUND)] | None = optional(
        "Seconds for which a NoExecute taint is tolerated. Empty: no limit."
    )


class NodeRequirement(OpenModel):
    """An expression about one label of nodes."""

    key: _LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: Annotated[list[_LabelValue], Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        values = self.values or []
        if self.operator in ("In", "NotIn") and not values:
            raise ValueError(f"Write values for {self.operator}")
        if self.operator in ("Exists", "DoesNotExist") and values:
            raise ValueError(f"Remove values: {self.operator} takes none")
        if self.operator in ("Gt", "Lt") and not (len(values) == 1 and values[0].isdecimal()):
            raise ValueError(f"Write one whole number in values for {self.operator}")
        return self


class NameRequirement(OpenModel):
    """An expression about the name of nodes, the only field that they are found by."""

    key: Literal["metadata.name"]
    operator: Literal["In", "NotIn"]
    values: Annotated[list[DnsSubdomain], Field(min_length=1, max_length=1)]


class NodeTerm(OpenModel):
    """Expressions that must all match."""

    match_expressions: Annotated[list[NodeRequirement], Field(max_length=MOST_EXPRESSIONS)] | None = None
    match_fields: Annotated[list[NameRequirement], Field(max_length=4)] | None = None

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        if not self.match_expressions and not self.match_fields:
            raise ValueError("Write matchExpressions or matchFields: an empty term matches no node")
        return self


class NodeTerms(OpenModel):
    """Terms of which one must match."""

    node_selector_terms: Annotated[list[NodeTerm], Field(min_length=1, max_length=MOST_TERMS)]


class PreferredNodes(OpenModel):
    """A term that is better met."""

    weight: _Weight
    preference: NodeTerm


class NodeAffinity(OpenModel):
    """Nodes that the pods must or should have."""

    required_during_scheduling_ignored_during_execution: NodeTerms | None = None
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredNodes], Field(max_length=MOST_EXPRESSIONS)] | None
    ) = None


class LabelRequirement(OpenModel):
    """An expression about one label of pods or namespaces."""

    key: _LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Annotated[list[_LabelValue], Field(max_length=64)] | None = None

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if bool(self.values) != (self.operator in ("In", "NotIn")):
            raise ValueError("Write values with In and NotIn, and with no other operator")
        return self


class LabelSelector(OpenModel):
    """Labels that must all be there."""

    match_labels: Annotated[dict[_LabelKey, _LabelValue], Field(max_length=32)] | None = None
    match_expressions: Annotated[list[LabelRequirement], Field(max_length=MOST_EXPRESSIONS)] | None = None


class PodTerm(OpenModel):
    """Pods that are near, or far."""

    topology_key: _LabelKey
    label_selector: LabelSelector | None = None
    namespaces: _Names | None = None
    namespace_selector: LabelSelector | None = None


class PreferredPods(OpenModel):
    """A term that is better met."""

    weight: _Weight
    pod_affinity_term: PodTerm


class PodAffinity(OpenModel):
    """Pods that must or should be near, or far."""

    required_during_scheduling_ignored_during_execution: (
        Annotated[list[PodTerm], Field(max_length=MOST_EXPRESSIONS)] | None
    ) = None
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredPods], Field(max_length=MOST_EXPRESSIONS)] | None
    ) = None

    @property
    def required(self) -> tuple[PodTerm, ...]:
        """The terms that must be met."""
        return tuple(self.required_during_scheduling_ignored_during_execution or ())

    @property
    def preferred(self) -> tuple[PodTerm, ...]:
        """The terms that should be met."""
        return tuple(each.pod_affinity_term for each in self.preferred_during_scheduling_ignored_during_execution or ())


class Affinity(OpenModel):
    """Nodes and pods that the pods must or should be near to."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None

    @property
    def node_terms(self) -> tuple[NodeTerm, ...]:
        """The terms of which a node must match one; empty if every node will do."""
        required = self.node_affinity and self.node_affinity.required_during_scheduling_ignored_during_execution
        return tuple(required.node_selector_terms) if required else ()


class Spread(OpenModel):
    """How evenly the pods are spread."""

    max_skew: Annotated[int, Field(ge=1, le=1000)]
    topology_key: _LabelKey
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    min_domains: Annotated[int, Field(ge=1, le=1000)] | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None

    @model_validator(mode="after")
    def _check_domains(self) -> Self:
        if self.min_domains is not None and self.when_unsatisfiable != "DoNotSchedule":
            raise ValueError("Remove minDomains: it is for DoNotSchedule alone")
        return self


def _address(text: str) -> str:
    try:
        ip_address(text)
    except ValueError as error:
        raise ValueError("Write an address such as 10.0.0.1 or fd00::1") from error
    return text


_Address = Annotated[str, Field(max_length=45), AfterValidator(_address)]


class DnsOption(OpenModel):
    """An option of resolv.conf."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    value: Annotated[str, Field(max_length=63)] | None = None


class DnsConfig(OpenModel):
    """Additions to the pods' resolv.conf. Bounds: ``MaxDNSNameservers`` and ``MaxDNSSearchPaths`` of Kubernetes."""

    nameservers: Annotated[list[_Address], Field(max_length=3)] | None = None
    searches: Annotated[list[DnsSubdomain], Field(max_length=32)] | None = None
    options: Annotated[list[DnsOption], Field(max_length=32)] | None = None


class HostAlias(OpenModel):
    """A line of the pods' hosts file."""

    ip: _Address
    hostnames: Annotated[list[DnsSubdomain], Field(min_length=1, max_length=32)]
