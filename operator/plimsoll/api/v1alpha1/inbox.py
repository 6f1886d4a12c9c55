"""Proposals of the live loop, and people's answers to them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from plimsoll.api.v1alpha1.base import ApiModel, optional, rule

Word = Annotated[str, Field(min_length=1, max_length=63)]
Text = Annotated[str, Field(max_length=1024)]
Dollars = Annotated[str, Field(max_length=24)]
Time = Annotated[str, Field(max_length=40, json_schema_extra={"format": "date-time"})]
Milliseconds = Annotated[int, Field(ge=0, le=3_600_000)]
ProposalId = Annotated[str, Field(max_length=12, pattern=r"^[0-9a-f]{12}$")]
Finding = Annotated[str, Field(max_length=63, pattern=r"^[A-Z][A-Za-z]*$")]
UserName = Annotated[str, Field(min_length=1, max_length=512)]
Count = Annotated[int, Field(ge=0, le=100_000)]


class ProposalState(StrEnum):
    """The value of the label ``plimsoll.dev/state`` of a proposal."""

    OPEN = "Open"
    APPROVED = "Approved"
    REJECTED = "Rejected"


class Verdict(StrEnum):
    """A person's answer."""

    APPROVE = "approve"
    REJECT = "reject"
    ACKNOWLEDGE = "acknowledge"


class ProposedSettings(ApiModel):
    """The engine settings of one replica."""

    max_num_seqs: Count | None = optional("Most requests at once of one engine.")
    max_num_batched_tokens: Annotated[int, Field(ge=0, le=10_000_000)] | None = optional(
        "Most tokens of one step of an engine."
    )
    kv_cache_dtype: Word | None = optional("Data type of the KV cache.")


class ProposedPlace(ApiModel):
    """Replicas on one GPU type with one split."""

    gpu_type: Word = Field(description="GPU type.")
    tensor_parallel: Count = Field(description="Tensor-parallel degree.")
    pipeline_parallel: Count | None = optional("Pipeline stages, if there are several.")
    data_parallel: Count | None = optional("Engines of a replica, if there are several.")
    expert_parallel: bool | None = optional("Whole experts on each rank, if so.")
    capacity_type: Word | None = optional("Spot or OnDemand, if the pods are restricted to it.")
    replicas: Count = Field(description="Number of replicas.")
    settings: ProposedSettings | None = optional("Engine settings, where they are known.")


class ProposedFigure(ApiModel):
    """One figure that the reason rests on."""

    name: Word = Field(description="Name of the figure.")
    value: Text = Field(description="Value of the figure when the proposal was made.")


class ProposedBill(ApiModel):
    """US dollars per hour of all replicas, before and after the change."""

    before: Dollars | None = optional("US dollars per hour now, if known.")
    after: Dollars | None = optional("US dollars per hour after the change, if known.")
    summary: Annotated[str, Field(max_length=64)] = Field(description="Both, for the printer column.")


class ProposedSpeed(ApiModel):
    """Predicted latency of one replica at the declared load."""

    ttft_milliseconds: Milliseconds | None = optional("Milliseconds to the first token.")
    tpot_milliseconds: Milliseconds | None = optional("Milliseconds per output token.")


class ProposedLatency(ApiModel):
    """Predicted latency before and after the change, if it is known."""

    before: ProposedSpeed | None = optional("Latency now.")
    after: ProposedSpeed | None = optional("Latency after the change.")


class ProposedTouch(ApiModel):
    """A change that the proposal asks of another deployment."""

    deployment: Annotated[str, Field(max_length=253)] = Field(
        description="Name, or 'another deployment' where it is in another namespace."
    )
    gpu_type: Word = Field(description="GPU type that it leaves.")
    replicas: Count = Field(description="Replicas that leave.")
    action: Text = Field(description="Change, as text for people.")


class ProposedGpus(ApiModel):
    """GPUs of one type that the replicas hold before and after the change."""

    gpu_type: Word = Field(description="GPU type.")
    before: Count = Field(description="GPUs that all replicas hold now.")
    after: Count = Field(description="GPUs that all replicas hold after the change.")
    free: Count = Field(description="GPUs of that type that no pod held when the proposal was made.")


class ProposedAlternative(ApiModel):
    """A place that was not taken, and why."""

    gpu_type: Word = Field(description="GPU type.")
    tensor_parallel: Count = Field(description="Tensor-parallel degree.")
    pipeline_parallel: Count | None = optional("Pipeline stages, if there are several.")
    data_parallel: Count | None = optional("Engines of a replica, if there are several.")
    expert_parallel: bool | None = optional("Whole experts on each rank, if so.")
    reason: Word = Field(description="Reason code; docs/reasons.md lists them.")


class ProposalContent(ApiModel):
    """The content of a PlacementProposal. The operator writes it once, and nobody can change it."""

    deployment: Word = Field(description="Name of the InferenceDeployment in the same namespace.")
    id: ProposalId = Field(
        description="Digest of the deployment's uid and generation, the target and the reason. An approval names it."
    )
    generation: Annotated[int, Field(ge=0, le=2**53)] = Field(
        description="Generation of the spec that the proposal is for."
    )
    change: Word = Field(description="AddReplica, RemoveReplica, Retune, Move or ReplaceReplica.")
    summary: Annotated[str, Field(max_length=512)] = Field(
        description="What changes and its price, in one line: add 1 replica on l4-24gb x 1, +$0.70/h."
    )
    reason: Word = Field(description="Reason, as one CamelCase word for programs.")
    message: Annotated[str, Field(max_length=4096)] = Field(description="Reason with its figures, as text for people.")
    figures: list[ProposedFigure] = Field(
        default_factory=list, max_length=16, description="Figures of the reason when the proposal was made."
    )
    from_: list[ProposedPlace] = Field(
        alias="from", default_factory=list, max_length=16, description="Replicas that serve now."
    )
    to: list[ProposedPlace] = Field(
        default_factory=list, max_length=16, description="Replicas that serve after the change."
    )
    bill: ProposedBill = Field(description="Costs before and after the change.")
    gpus: list[ProposedGpus] = Field(
        default_factory=list, max_length=16, description="GPUs before and after the change, by type."
    )
    startup_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = optional(
        "Longest start-up of a replica of this deployment that was seen; absent where none was seen, and "
        "where no replica starts."
    )
    latency: ProposedLatency | None = optional("Predicted latency, where it is known.")
    touches: list[ProposedTouch] = Field(
        default_factory=list, max_length=16, description="Changes of other deployments."
    )
    alternatives: list[ProposedAlternative] = Field(
        default_factory=list, max_length=16, description="Places that were not taken, and why."
    )
    created_at: Time = Field(description="Time when the proposal was made.")
    expires_at: Time = Field(description="Time from which it cannot be decided any more.")


_ACKNOWLEDGES = "self.decision == 'acknowledge'"
_HAS_FINDING = ("has(self.finding)", "has(self.generation)", "has(self.until)")


class PlacementApprovalSpec(ApiModel):
    """A person's answer to a proposal, or to a finding that they know of. It is created and never changed."""

    cel_rules = (
        rule("self == oldSelf", "spec of a PlacementApproval cannot be changed: create another PlacementApproval"),
        rule(
            f"{_ACKNOWLEDGES} || (has(self.proposal) && !({' || '.join(_HAS_FINDING)}))",
            "decision approve or reject needs proposal, and takes no finding, generation or until",
        ),
        rule(
            f"!({_ACKNOWLEDGES}) || (!has(self.proposal) && {' && '.join(_HAS_FINDING)})",
            "decision acknowledge needs finding, generation and until, and takes no proposal",
        ),
    )
    deployment: Word = Field(description="Name of the InferenceDeployment in the same namespace.")
    proposal: ProposalId | None = optional("Id of the PlacementProposal that is approved or rejected.")
    decision: Verdict = Field(description="Answer: approve or reject a proposal, or acknowledge a finding.")
    finding: Finding | None = optional(
        "What is acknowledged: the reason of the condition that says it (kubectl get infd), or OverLine."
    )
    generation: Annotated[int, Field(ge=1, le=2**53)] | None = optional(
        "Generation of the InferenceDeployment with which the finding was seen."
    )
    until: Time | None = optional("Time from which the finding counts again, at most 30 days ahead.")
    reason: Text | None = optional("Reason, as text for people.")
    by: UserName = Field(description="User name of the person who creates it.")


class PlacementApprovalStatus(ApiModel):
    """The operator's answer."""

    state: Annotated[str, Field(max_length=32)] = Field(
        description="Waiting, CarriedOut, Rejected, Acknowledged, Refused, Stale or Expired. All but Waiting and "
        "Acknowledged are final."
    )
    message: Text = Field(description="State, as text for people.")
    at: Time = Field(description="Time of the last change of the state.")
