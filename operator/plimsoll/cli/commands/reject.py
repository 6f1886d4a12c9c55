"""``plimsoll reject``."""

from __future__ import annotations

from plimsoll.cli.commands.approve import answering

command = answering("reject", "Reject a proposal of one InferenceDeployment. It is not made again for a day.")
