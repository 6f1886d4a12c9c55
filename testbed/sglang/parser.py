"""What SGLang's own parser makes of arguments."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from testbed.engine.environment import ensure_engine
from testbed.sglang.environment import ensure_sglang, sglang_environment

_SCRIPT: Final = Path(__file__).with_name("parse.py")
_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class Parsed:
    """One answer: the values by name, or why the parser refused the arguments."""

    read: dict[str, Any]
    refused: str = ""


def parse(commands: Sequence[Sequence[str]]) -> tuple[dict[str, str], list[Parsed]]:
    """Return the parser's options with the name that each sets, and its answer to each list of arguments."""
    ran = subprocess.run(
        [str(ensure_engine()), str(_SCRIPT)],
        input=json.dumps([list(each) for each in commands]),
        check=True,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env=sglang_environment(ensure_sglang()),
    )
    answer = json.loads(ran.stdout)
    return answer["options"], [Parsed(each.get("read", {}), each.get("refused", "")) for each in answer["answers"]]
