"""The words of ``plimsoll estimate`` when the hub refuses, limits or does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.fake_hub import FakeHub, serve_hub
from tests.cli.test_estimate import Ran
from tests.support.model_configs import CONFIGS

NAME = "somebody/her-own-model"
CONFIG = (CONFIGS / "Qwen__Qwen3-8B.json").read_bytes()
WITHOUT = "config.json instead (a file, the folder of a downloaded checkpoint, or spec.model.config of a manifest)"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nonexistent/token")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serve_hub() as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.url)
        yield fake


def error_of(capsys: pytest.CaptureFixture[str], name: str = NAME) -> str:
    ran = Ran(capsys, [name, "--gpu", "l4"])
    assert ran.status == 2
    return ran.error


def test_a_gated_model_names_the_token_and_opens_with_it(
    hub: FakeHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.publish(NAME, CONFIG, tokens=("hf_right",), gated=True)
    assert "is gated. Accept its licence on the hub and give a token of that account: set HF_TOKEN" in error_of(capsys)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert f"{NAME} (Qwen3ForCausalLM" in Ran(capsys, [NAME, "--gpu", "l4"]).shown


def test_a_model_that_nobody_shows_names_the_token_too(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert hub.url
    said = error_of(capsys)
    assert "was not found. Check the name; if the model is private or gated, give a token that may read it" in said
    assert "set HF_TOKEN" in said
    assert "Did you mean" not in said
    assert "Did you mean Qwen/Qwen3-8B?" in error_of(capsys, "qwen3-8b")


def test_a_limit_of_the_rate_says_how_long_and_what_helps(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.publish(NAME, CONFIG)
    hub.limit = {"Retry-After": "42"}
    said = error_of(capsys)
    assert "the hub limits the rate of requests (HTTP 429)" in said
    assert "set HF_TOKEN. It asks for a pause of 42 s." in said
    assert WITHOUT in said
    assert "Check the network" not in said


def test_a_hub_out_of_reach_says_how_to_do_without(
    hub: FakeHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hub.url
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    said = error_of(capsys)
    assert "the hub at http://127.0.0.1:1 cannot be reached (ConnectError)" in said
    assert "Check the network, name a mirror in HF_ENDPOINT" in said
    assert WITHOUT in said
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE is set" in error_of(capsys)


def test_the_address_of_a_page_is_asked_for_by_its_name(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.publish(NAME, CONFIG)
    shown = Ran(capsys, [f"https://huggingface.co/{NAME}/tree/main", "--gpu", "l4"]).shown
    assert f"{NAME} (Qwen3ForCausalLM" in shown
