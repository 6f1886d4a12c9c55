"""What a cluster has: nodes, pods, quotas and what engines and the scheduler say, read into a fleet."""
