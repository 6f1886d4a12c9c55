"""Names of files, picked from an index however it is cut into pieces."""

from __future__ import annotations

import json

from plimsoll.adapters.hub.checkpoints import files_of
from plimsoll.adapters.hub.tensors import IndexScan
from tests.support.tables import every_case

NAMES = [f"weights/model-{number:05}-of-00031.safetensors" for number in range(31)]
WEIGHTS = {f"model.layers.{number}.mlp.experts.{number}.w.weight": NAMES[number % 31] for number in range(2000)}
INDEX = {"metadata": {"total_size": 1, "format": "pt"}, "weight_map": WEIGHTS}


@every_case("indent", [None, 2])
@every_case("piece", [1, 7, 1000, 65536])
def test_the_same_files_as_the_parsed_index_names(indent: int | None, piece: int) -> None:
    content = json.dumps(INDEX, indent=indent).encode()
    scan = IndexScan()
    for start in range(0, len(content), piece):
        scan.feed(content[start : start + piece])
    assert scan.files() == files_of(INDEX) == sorted(NAMES)


@every_case(
    "names",
    [
        ["../../x.safetensors", "model.safetensors"],
        ["/x.safetensors"],
        ["a b.safetensors"],
        ["model.bin"],
        [],
        [f"{number}.safetensors" for number in range(600)],
    ],
)
def test_an_index_of_other_files_names_none(names: list[str]) -> None:
    scan = IndexScan()
    scan.feed(json.dumps({"weight_map": {f"w{number}": name for number, name in enumerate(names)}}).encode())
    assert scan.files() is None
