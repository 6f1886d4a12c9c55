"""Values that cannot be meant: Helm refuses them with the name of the value."""

from __future__ import annotations

import pytest

from testbed.commands import CommandFailed
from tests.support.helm import rendered

pytestmark = pytest.mark.helm

SECRET = "prometheus.url=http://p,prometheus.auth.existingSecret=s"  # noqa: S105 - the name of one
USER = "prometheus.auth.username=u,prometheus.auth.passwordKey=p"
CONSOLE = "console.enabled=true,console.hosts={console.example.org}"
TLS = "console.tls.existingSecret=console-tls"
RUNBOOKS = "metrics.prometheusRule.runbookUrl"

AGAINST_THE_SCHEMA = {
    "promtheus.url=http://p": "'': additional properties 'promtheus' not allowed",
    "prices.l4-24gb=cheap": "'/prices/l4-24gb': 'cheap' does not match pattern",
    "logLevel=loud": "'/logLevel': value must be one of",
    "metrics.port=80": "'/metrics/port': minimum",
    "prometheus.url=prometheus:9090": "'/prometheus/url': 'prometheus:9090' does not match pattern",
    "image.registry=https://registry.example": "'/image/registry': 'https://registry.example' does not match pattern",
    "podPolicy.volumes={hostPath}": "'/podPolicy': additional properties 'volumes' not allowed",
    "console.proxies={10.0.0.1}": "'/console/proxies/0': '10.0.0.1' does not match pattern",
    "console.hosts={https://console.example.org}": (
        "'/console/hosts/0': 'https://console.example.org' does not match pattern"
    ),
    "console.port=80": "'/console/port': minimum",
}
"""Values that the schema refuses, with the place and the reason that Helm writes. It writes all of them at once."""

AS_THE_SCHEMA_SAYS = (
    "prices.l4-24gb=0.71",
    "logLevel=debug",
    "metrics.port=8081",
    "prometheus.url=http://prometheus:9090",
    "image.registry=registry.example/team",
    "podPolicy.volumeTypes={emptyDir}",
    "console.proxies={10.0.0.0/8}",
    "console.hosts={console.example.org}",
    "console.port=8081",
)
"""The honest neighbours: the same values as they can be meant."""

NOT_MEANT = {
    "image.registry=": "image.registry is empty",
    "fleet.readNodes=false": "--set-file fleet.file",
    "fleet.configMap=nodes": "fleet.readNodes is true",
    "hub.tokenSecretNames={hf}": "hub.tokenSecretNamespaces is empty",
    "hub.tokenSecretNamespaces={ml}": "hub.tokenSecretNames is empty",
    "prometheus.auth.tokenKey=token": 'tokenKey is "token", and prometheus.auth.existingSecret is empty',
    "prometheus.auth.existingSecret=s": "no key of it is named",
    f"{SECRET},prometheus.url=,prometheus.auth.tokenKey=t": "prometheus.url is empty",
    "prometheus.auth.username=u": "prometheus.auth.passwordKey is empty",
    f"{SECRET},prometheus.auth.passwordKey=p": "prometheus.auth.username is empty",
    f"{SECRET},{USER},prometheus.auth.tokenKey=t": "a request carries one of them",
    f"{SECRET},prometheus.auth.certificateKey=tls.crt": "prometheus.auth.privateKeyKey is empty",
    f"{SECRET},prometheus.auth.privateKeyKey=tls.key": "prometheus.auth.certificateKey is empty",
    "console.enabled=true": "console.hosts is empty",
    CONSOLE: "console.tls.existingSecret is empty",
    f"{CONSOLE},{TLS},console.tls.plainHttp=true": "keep one of them",
    f"{CONSOLE},{TLS},console.tokenHeader=X-Id-Token": "console.proxies is empty",
    f"{CONSOLE},{TLS},console.allowApprovals=true,approvals=false": "approvals=true",
}
"""Values that are well-formed and do not fit together, with a part of the template's sentence."""


def refusal(*options: str) -> str:
    with pytest.raises(CommandFailed) as refused:
        rendered(*options)
    return refused.value.output


def test_values_against_the_schema_are_refused_each_with_its_place() -> None:
    said = refusal("--set", ",".join(AGAINST_THE_SCHEMA))
    lines = [line for line in said.splitlines() if "- at " in line and not line.endswith("validation failed")]
    missing = [reason for reason in AGAINST_THE_SCHEMA.values() if not [line for line in lines if reason in line]]
    assert missing == [], said
    assert len(lines) == len(AGAINST_THE_SCHEMA), said
    assert rendered("--set", ",".join(AS_THE_SCHEMA_SAYS))


@pytest.mark.parametrize(("options", "reason"), NOT_MEANT.items())
def test_values_that_cannot_be_meant_are_refused(options: str, reason: str) -> None:
    assert reason in refusal("--set", options)


@pytest.mark.parametrize("address", ["https://git.example/a b", "https://git.example/x#y", "{{ evil }}", ""])
def test_an_address_that_would_break_a_link_is_refused(address: str) -> None:
    on = ("--set", "metrics.prometheusRule.enabled=true", "--set-literal")
    assert "- at '/metrics/prometheusRule/runbookUrl': " in refusal(*on, f"{RUNBOOKS}={address}")
    assert rendered(*on, f"{RUNBOOKS}=https://git.example/docs/runbooks.md")
