"""Starts of SGLang: what a log says."""
