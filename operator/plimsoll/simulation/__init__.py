"""Engines and replicas on a virtual clock: one model for the benchmark of policies and for the simulator."""
