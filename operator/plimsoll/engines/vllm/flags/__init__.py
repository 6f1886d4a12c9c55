"""Flags of vLLM: what its parser reads, and which of them users may pass."""
