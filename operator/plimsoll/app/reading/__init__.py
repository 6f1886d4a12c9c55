"""From stored objects to values: spec, pods, Deployments, and what engines have reported."""
