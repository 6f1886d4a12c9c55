"""Demands: what each deployment keeps, and what it has to replace, move or add."""
