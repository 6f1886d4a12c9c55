"""A real Kubernetes control plane without containers, for the demo and for the cluster tests. Not shipped."""
