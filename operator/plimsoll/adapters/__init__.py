"""Adapters to external systems: one module for each system. It turns failures into domain errors or values."""
