"""Files that the control plane's programs read."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.certificates import Authority, service_account_keys
from testbed.kubeconfig import write_kubeconfig
from testbed.kwok_config import kwok_configuration
from testbed.operator_process import rights_of
from testbed.ports import PortReservation
from testbed.prometheus import prometheus_configuration
from testbed.versions import KWOK_STAGES


@pytest.fixture
def kwok_stages(tmp_path: Path) -> Path:
    for name in KWOK_STAGES:
        (tmp_path / Path(name).name).write_text(
            yaml.safe_dump({"kind": "Stage", "metadata": {"name": Path(name).stem}})
        )
    return tmp_path


def ready_stage(configuration: str) -> dict[str, Any]:
    documents = list(yaml.safe_load_all(configuration))
    stage: dict[str, Any] = next(each for each in documents if each.get("metadata", {}).get("name") == "engine-ready")
    return stage


def test_kwok_gets_options_its_own_stages_and_ours(kwok_stages: Path) -> None:
    documents = list(yaml.safe_load_all(kwok_configuration(kwok_stages=kwok_stages, judged=False, lease_seconds=40)))

    assert documents[0]["options"]["nodeLeaseDurationSeconds"] == 40
    assert {document["metadata"]["name"] for document in documents[1:]} == {
        "node-initialize",
        "node-heartbeat-with-lease",
        "node-not-ready",
        "pod-delete",
        "engine-loading",
        "engine-ready",
        "engine-crash",
    }


def test_only_a_judged_engine_waits_for_a_verdict(kwok_stages: Path) -> None:
    free = ready_stage(kwok_configuration(kwok_stages=kwok_stages, judged=False, lease_seconds=40))
    judged = ready_stage(kwok_configuration(kwok_stages=kwok_stages, judged=True, lease_seconds=40))

    assert "verdict" not in str(free["spec"]["selector"])
    assert '"testbed.plimsoll.dev/verdict"] == "fits"' in str(judged["spec"]["selector"])


def test_the_certificates_make_a_working_tls_context(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    client, server = authority.client("system:kube-scheduler"), authority.server()
    context = ssl.create_default_context(cafile=str(authority.certificate))

    context.load_cert_chain(client.certificate, client.key)
    context.load_cert_chain(server.certificate, server.key)

    assert context.get_ca_certs()[0]["subject"] == ((("commonName", "plimsoll-testbed"),),)
    assert client.key.stat().st_mode & 0o077 == 0


def test_a_kubeconfig_needs_somebody_to_be(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    path = write_kubeconfig(tmp_path / "k", server="https://x", authority=authority.certificate, token="t")  # noqa: S106

    assert yaml.safe_load(path.read_text())["users"][0]["user"] == {"token": "t"}
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(ValueError, match="client and token: both are missing"):
        write_kubeconfig(tmp_path / "k", server="https://x", authority=authority.certificate)


def test_service_account_keys_are_an_rsa_pair(tmp_path: Path) -> None:
    public, private = service_account_keys(tmp_path)

    assert public.read_text().startswith("-----BEGIN PUBLIC KEY-----")
    assert private.read_text().startswith("-----BEGIN RSA PRIVATE KEY-----")


def test_ports_are_different_and_free_again_after_release() -> None:
    first, second = PortReservation(), PortReservation()
    ports = [first.take() for _ in range(20)] + [second.take() for _ in range(20)]
    first.release()
    second.release()

    assert len(set(ports)) == 40
    assert all(20_000 <= port < 32_000 for port in ports)


def test_prometheus_scrapes_every_second_and_trusts_the_exporters_labels() -> None:
    config = yaml.safe_load(prometheus_configuration(["127.0.0.1:1"]))

    assert config["global"]["scrape_interval"] == "1s"
    assert config["scrape_configs"][0]["honor_labels"] is True
    assert config["scrape_configs"][0]["static_configs"] == [{"targets": ["127.0.0.1:1"]}]


def test_prometheus_takes_late_samples_only_where_days_are_kept() -> None:
    usual, late = (yaml.safe_load(prometheus_configuration(["127.0.0.1:1"], days=days)) for days in (0, 3))

    assert "storage" not in usual
    assert late["storage"] == {"tsdb": {"out_of_order_time_window": "3d"}}


def test_prometheus_evaluates_rules_only_where_there_are_some() -> None:
    usual, ruled = (yaml.safe_load(prometheus_configuration([], rules=rules)) for rules in ((), (Path("/r.yaml"),)))

    assert "rule_files" not in usual
    assert ruled["rule_files"] == ["/r.yaml"]


def test_only_rights_are_taken_from_a_chart() -> None:
    rendered = "kind: Deployment\n---\nkind: ClusterRole\nrules: []\n---\n---\nkind: ServiceAccount\n"

    assert [manifest["kind"] for manifest in rights_of(rendered)] == ["ClusterRole", "ServiceAccount"]
