"""A hub for every test that asks for one, and a reader of models that knows no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from plimsoll.adapters.hub.hub import HubModels
from tests.adapters.fake_hub import FakeHub, serve_hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A hub that the library is pointed at, and nothing else it would ask or read."""
    monkeypatch.setattr("huggingface_hub.utils._detect_agent._registry", {"standardEnvVars": [], "harnesses": {}})
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nonexistent/token")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with serve_hub() as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.url + "/")
        yield fake


@pytest.fixture
def models(hub: FakeHub, tmp_path: Path) -> HubModels:
    assert hub.url
    return HubModels(tmp_path, timeout_seconds=5)
