"""Facts about a cluster: nodes, pods, quotas, and the messages of engines and the scheduler, read into a fleet."""
