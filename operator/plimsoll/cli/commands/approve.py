"""``plimsoll approve``."""

from __future__ import annotations

from plimsoll.cli.cluster.answer_options import answering

command = answering("approve", "Approve a proposal of one InferenceDeployment. The operator then carries it out.")
