"""The custom resources of routing on a control plane: real ones, without the controllers that others have for them."""

from __future__ import annotations

from pathlib import Path

import yaml

from testbed.binaries import ensure_routing_kinds
from testbed.control_plane import ControlPlane
from testbed.established import wait_until_established


def install_pools(control_plane: ControlPlane) -> None:
    """Bring the custom resources of the Gateway API Inference Extension onto a control plane."""
    pools, _ = ensure_routing_kinds()
    _install(control_plane, pools)


def install_gateways(control_plane: ControlPlane) -> None:
    """Bring those of the Gateway API (standard channel) onto it."""
    _, gateways = ensure_routing_kinds()
    _install(control_plane, gateways)


def _install(control_plane: ControlPlane, folder: Path) -> None:
    for file in sorted(folder.iterdir()):
        definition = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        control_plane.apply([definition])
        wait_until_established(control_plane.kubectl, definition["metadata"]["name"])
