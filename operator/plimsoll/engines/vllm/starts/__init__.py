"""Starts of vLLM: what a command line says, what a log says, and why a start failed."""
