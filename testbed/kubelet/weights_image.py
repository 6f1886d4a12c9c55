"""The image that copies weights: Plimsoll's own command, with a folder of this machine in the place of the claim."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from testbed.kubelet.images import Image, Place, Program, plain_environment

_PACKAGE = Path(__file__).resolve().parents[2] / "operator"


def weights_image(claim: Path, mounted_at: str) -> Image:
    """Return the image whose containers find their claim in a folder, in the place of where it is mounted."""

    def program(container: Mapping[str, Any], place: Place) -> Program:
        words = [str(word).replace(mounted_at, str(claim)) for word in container["args"]]
        environment = plain_environment(container) | {"HOME": str(place.folder), "PYTHONPATH": str(_PACKAGE)}
        kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
        differences = [f"{mounted_at} is {claim}", "HOME is the pod's folder"]
        return Program([sys.executable, "-P", "-m", "plimsoll", *words], kept | environment, differences)

    return program
