"""Benchmarks: figures to look at, regenerated on demand; nothing here is a test."""
