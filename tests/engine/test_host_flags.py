"""Does the engine's own parser read the flags about host memory as the operator does?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.host import SHORTEST, host_use
from testbed.engine.arguments import Accepted
from tests.engine.questions import MODEL, parse
from tests.engine.recording import Recording

SIZES = (
    ("--kv-offloading-size", "16"),
    ("--kv-offloading-size=1.5",),
    ("--kv_offloading_size", "16"),
    ("--kv-offloading-s", "16"),
    ("--kv-offloading-size", "4", "--kv-offloading-size", "8"),
)
TRANSFERS = (
    ("--kv-transfer-config", json.dumps({"kv_connector_extra_config": {"cpu_bytes_to_use": 12 * GIB}})),
    ("--kv-t", json.dumps({"kv_connector_extra_config": {"cpu_bytes_to_use": 12 * GIB}})),
    ("--kv_transfer_config.kv_connector_extra_config.cpu_bytes_to_use", str(12 * GIB)),
)


@pytest.fixture(scope="module")
def spellings(recording: Recording) -> dict[str, str]:
    """Every spelling that the parser registers, by option."""
    return {name: option for option, names in parse(recording).spellings.items() for name in names}


def values(recording: Recording, arguments: Sequence[tuple[str, ...]]) -> list[dict[str, Any]]:
    results = parse(recording, [[MODEL, *each] for each in arguments]).results
    assert all(isinstance(each, Accepted) for each in results), results
    return [dict(each.values) for each in results if isinstance(each, Accepted)]


def test_sizes_are_read_alike(recording: Recording) -> None:
    for arguments, read in zip(SIZES, values(recording, SIZES), strict=True):
        assert host_use(arguments).kv_bytes == int(read["kv_offloading_size"] * GIB), arguments


def test_transfer_configurations_are_read_alike(recording: Recording) -> None:
    for arguments, read in zip(TRANSFERS, values(recording, TRANSFERS), strict=True):
        assert str(12 * GIB) in str(read["kv_transfer_config"]), arguments
        assert host_use(arguments).kv_bytes == 12 * GIB, arguments


def test_the_shortest_spellings_mean_one_flag_each(spellings: dict[str, str]) -> None:
    for name, least in SHORTEST.items():
        assert f"--{name}" in spellings
        meant = {option for spelling, option in spellings.items() if spelling.startswith(f"--{least}")}
        assert meant == {spellings[f"--{name}"]}, least
        shorter = {option for spelling, option in spellings.items() if spelling.startswith(f"--{least[:-1]}")}
        assert len(shorter) > 1, f"{least[:-1]} is accepted as well"
