"""Every spelling of an argument that takes host memory is read as vLLM's parser reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from plimsoll.domain.engines.engine_choice import HostUse, KvKeeper
from plimsoll.domain.errors import InvalidInput
from plimsoll.domain.units import GIB
from plimsoll.engines.vllm.host import host_use
from tests.support.tables import every_case

TRANSFER = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 12 * GIB},
}
TIERED = {"spec_name": "TieringOffloadingSpec", "cpu_bytes_to_use": 12 * GIB}
TIERS = TRANSFER | {"kv_connector_extra_config": TIERED}
FILES = TRANSFER | {"kv_connector_extra_config": TIERED | {"secondary_tiers": [{"type": "fs", "root_dir": "/k"}]}}
SIMPLE = TRANSFER | {"kv_connector": "SimpleCPUOffloadConnector"}
LMCACHE = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
SERVER = LMCACHE | {"kv_connector": "LMCacheMPConnector"}
SIZED = LMCACHE | {"kv_connector_extra_config": {"lmcache.max_local_cpu_size": 12.5}}
BOTH = {"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": [LMCACHE, SIMPLE]}}
BOTH_TURNED = {"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": [SIMPLE, LMCACHE]}}
SEVERAL = {
    "kv_connector": "MultiConnector",
    "kv_connector_extra_config": {"connectors": [{"kv_connector": "NixlConnector"}, TRANSFER]},
}


@every_case(
    ("arguments", "use"),
    [
        ((), HostUse()),
        (("--seed", "1", "--kv-cache-metrics"), HostUse()),
        (("--kv-offloading-size", "16"), HostUse(16 * GIB)),
        (("--kv-offloading-size=1.5",), HostUse(3 * GIB // 2)),
        (("--kv_offloading_size", "16"), HostUse(16 * GIB)),
        (("--kv-offloading-si", "16"), HostUse(16 * GIB)),
        (("--kv-offloading-size", "4", "--kv-offloading-size", "8"), HostUse(8 * GIB)),
        (("--kv-offloading-size", "0"), HostUse()),
        (("--seed", "--kv-offloading-size"), HostUse()),
        (("--kv-offloading-size", "16", "--kv-offloading-backend", "native"), HostUse(16 * GIB)),
        (("--kv-offloading-backend=lmcache", "--kv-offloading-size=16"), HostUse(16 * GIB, KvKeeper.LMCACHE)),
        (("--kv-transfer-config", json.dumps(TRANSFER)), HostUse(12 * GIB)),
        ((f"--kv-transfer-config={json.dumps(TIERS)}",), HostUse(12 * GIB, KvKeeper.TIERS)),
        (("--kv-transfer-config", json.dumps(FILES)), HostUse(12 * GIB, KvKeeper.TIERS, fills_disk=True)),
        (("--kv-t", json.dumps(SIMPLE)), HostUse(12 * GIB, KvKeeper.BUFFERS)),
        (("--kv_transfer_config", json.dumps(SEVERAL)), HostUse(12 * GIB)),
        (("--kv-transfer-config", json.dumps(BOTH)), HostUse(12 * GIB, KvKeeper.BUFFERS, rank_bytes=5 * GIB)),
        (("--kv-transfer-config", json.dumps(BOTH_TURNED)), HostUse(12 * GIB, KvKeeper.BUFFERS, rank_bytes=5 * GIB)),
        (("--kv-transfer-config", json.dumps({"kv_connector": [{}]})), HostUse()),
        (
            ("--kv-transfer-config.kv_connector_extra_config.cpu_bytes_to_use", "2G", "--kv-transfer-config.x=y"),
            HostUse(2 * GIB),
        ),
        (("--kv-transfer-config.kv_connector_extra_config.cpu_bytes_to_use=2g",), HostUse(2 * 10**9)),
        (("--kv-transfer-config", json.dumps(TIERS), "--kv-offloading-size", "3"), HostUse(3 * GIB, KvKeeper.TIERS)),
        (("--kv-transfer-config", "{broken"), HostUse()),
        (("--mm-processor-cache-type", "shm"), HostUse(media_bytes=4 * GIB)),
        (("--mm-processor-cache-type=shm", "--mm-processor-cache-gb", "0.5"), HostUse(media_bytes=GIB // 2)),
        (("--mm-processor-cache-gb", "9"), HostUse()),
        (("--safetensors-load-strategy", "eager"), HostUse(reads_whole_files=True)),
        (("--safetensors-load-strategy", "lazy"), HostUse()),
        (("--engram_config.cpu_offload", "false"), HostUse(places_tables=True)),
    ],
    ids=str,
)
def test_what_arguments_take_of_the_host_is_read(arguments: tuple[str, ...], use: HostUse) -> None:
    assert host_use(arguments) == use


@every_case(
    ("config", "variables", "use"),
    [
        (LMCACHE, {}, HostUse(rank_bytes=5 * GIB)),
        (LMCACHE, {"LMCACHE_MAX_LOCAL_CPU_SIZE": "20"}, HostUse(rank_bytes=20 * GIB)),
        (LMCACHE, {"LMCACHE_CONFIG_FILE": "/x.yaml"}, HostUse(rank_bytes=5 * GIB, has_file=True)),
        (
            LMCACHE,
            {"LMCACHE_CONFIG_FILE": "/x.yaml", "LMCACHE_MAX_LOCAL_CPU_SIZE": "0.5"},
            HostUse(rank_bytes=GIB // 2),
        ),
        (SIZED, {"LMCACHE_MAX_LOCAL_CPU_SIZE": "20"}, HostUse(rank_bytes=25 * GIB // 2)),
        (SIZED, {"LMCACHE_CONFIG_FILE": "/x.yaml"}, HostUse(rank_bytes=25 * GIB // 2)),
        ({"connectors": [SERVER, LMCACHE]}, {}, HostUse(rank_bytes=5 * GIB)),
        (SERVER, {"LMCACHE_MAX_LOCAL_CPU_SIZE": "20"}, HostUse()),
        (TRANSFER, {"LMCACHE_MAX_LOCAL_CPU_SIZE": "20"}, HostUse(12 * GIB)),
    ],
    ids=str,
)
def test_what_each_rank_gives_to_lmcache_is_read_where_lmcache_reads_it(
    config: dict[str, Any], variables: dict[str, str], use: HostUse
) -> None:
    assert host_use(("--kv-transfer-config", json.dumps(config)), variables) == use
    assert host_use((f"--kv-transfer-config={json.dumps(config)}", "--kv-offloading-size", "3"), variables) == HostUse(
        3 * GIB
    ), "the size makes it the engine's own"


def test_a_size_for_lmcache_that_is_none_is_refused_by_its_field() -> None:
    config = json.dumps(LMCACHE | {"kv_connector_extra_config": {"lmcache.max_local_cpu_size": "much"}})
    with pytest.raises(InvalidInput, match=r"extraArgs\[1\]: '?much'? cannot be used.*GiB for each rank"):
        host_use(("--kv-transfer-config", config))
    with pytest.raises(InvalidInput, match=r"LMCACHE_MAX_LOCAL_CPU_SIZE: '?-3'? cannot be used.*GiB for each rank"):
        host_use(("--kv-transfer-config", json.dumps(LMCACHE)), {"LMCACHE_MAX_LOCAL_CPU_SIZE": "-3"})
    assert host_use((), {"LMCACHE_MAX_LOCAL_CPU_SIZE": "-3"}) == HostUse(), "nobody reads it"


@every_case(
    ("arguments", "field", "value"),
    [
        (("--seed", "1", "--kv-offloading-size", "much"), r"extraArgs\[3\]", "much"),
        (("--kv-offloading-size=-1",), r"extraArgs\[0\]", "-1"),
        (("--kv-offloading-size=nan",), r"extraArgs\[0\]", "nan"),
        (("--kv-offloading-size=inf",), r"extraArgs\[0\]", "inf"),
        (("--kv-transfer-config", json.dumps({"cpu_bytes_to_use": "all"})), r"extraArgs\[1\]", "all"),
        (("--kv-transfer-config", json.dumps({"cpu_bytes_to_use": 2**62})), r"extraArgs\[1\]", str(2**62)),
    ],
    ids=str,
)
def test_a_figure_that_cannot_be_read_is_refused_by_its_argument(
    arguments: tuple[str, ...], field: str, value: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"spec\.engine\.{field}: '?{value}'? cannot be used\. .* takes a number"):
        host_use(arguments)
