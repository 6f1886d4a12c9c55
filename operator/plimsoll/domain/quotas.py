"""The names under which a ResourceQuota limits the CPU and memory of pods.

Amounts of CPU are in thousandths of a core, and amounts of memory in bytes. GPUs have the names of their resources.
"""

from __future__ import annotations

CPU_REQUESTS = "requests.cpu"
MEMORY_REQUESTS = "requests.memory"
CPU_LIMITS = "limits.cpu"
MEMORY_LIMITS = "limits.memory"

OF_CPU = frozenset({CPU_REQUESTS, CPU_LIMITS})
OF_MEMORY = frozenset({MEMORY_REQUESTS, MEMORY_LIMITS})
