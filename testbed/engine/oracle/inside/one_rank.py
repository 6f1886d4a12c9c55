"""Let this single process pass for one rank of a group: the size and the place, without a group behind them."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

from testbed.engine.oracle.questions import Question


class OneRank:
    """What layers ask a process group while they are built. Nothing is ever sent.

    Attributes:
        world_size: ranks in the group.
        rank_in_group: this one's place.
    """

    def __init__(self, name: str, *, size: int, rank: int) -> None:
        torch: Any = import_module("torch")
        self.unique_name = name
        self.world_size = size
        self.rank = self.local_rank = self.rank_in_group = rank
        self.ranks = list(range(size))
        self.first_rank, self.last_rank = 0, size - 1
        self.is_first_rank, self.is_last_rank = rank == 0, rank == size - 1
        self.device = torch.device("cuda:0")
        self.device_communicator = self.mq_broadcaster = None
        self.use_custom_op_call = False
        self.cpu_group = self.device_group = SimpleNamespace(size=lambda: size, rank=lambda: rank)

    def barrier(self) -> None:
        """Wait for nobody."""

    def all_reduce(self, value: Any) -> Any:
        """A sum over one."""
        return value

    def broadcast_object(self, value: Any = None, src: int = 0) -> Any:
        """From this rank to itself."""
        del src
        return value


def become(question: Question) -> None:
    """Be the rank that the question is about, in each of vLLM's groups."""
    state: Any = import_module("vllm.distributed.parallel_state")
    tp, pp = question.tp, question.pp
    place = question.stage * tp + question.rank
    state._WORLD = state._INNER_DP_WORLD = OneRank("world", size=tp * pp, rank=place)  # noqa: SLF001
    state._TP = OneRank("tp", size=tp, rank=question.rank)  # noqa: SLF001
    state._PP = OneRank("pp", size=pp, rank=question.stage)  # noqa: SLF001
    # vLLM spreads experts over the data- and tensor-parallel ranks of a stage; data parallelism is not asked for.
    state._EP = state._EPLB = state._ETP = OneRank("ep", size=tp, rank=question.rank)  # noqa: SLF001
    state._DP = state._DCP = state._PCP = OneRank("alone", size=1, rank=0)  # noqa: SLF001
    state._NODE_COUNT = 1  # noqa: SLF001
