"""The ``preStop`` hook of a container, before it gets SIGTERM."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from typing import Any

from testbed.kubelet.probes import http_answers, port_number


def before_stop(container: Mapping[str, Any], address: str, environment: Mapping[str, str], seconds: float) -> None:
    """Run the ``preStop`` hook (a command, a GET or a sleep), for so many seconds at most.

    A hook that fails stops nothing, as with a real kubelet. A command runs on this machine, not in the engine's root.
    """
    hook = (container.get("lifecycle") or {}).get("preStop") or {}
    if "exec" in hook:
        _run(hook["exec"]["command"], environment, seconds)
    elif "httpGet" in hook:
        port = port_number(container, hook["httpGet"]["port"])
        http_answers(address, port, hook["httpGet"].get("path", "/"), seconds)
    elif "sleep" in hook:
        time.sleep(min(float(hook["sleep"]["seconds"]), seconds))


def _run(command: list[str], environment: Mapping[str, str], seconds: float) -> None:
    try:
        subprocess.run(command, env=dict(environment), check=False, capture_output=True, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"[kubelet] preStop {command}: {error}")
