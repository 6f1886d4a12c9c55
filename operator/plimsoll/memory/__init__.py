"""From model facts to VRAM: one module per term, summed per rank in :mod:`plimsoll.memory.estimate`."""
