"""Ways to choose the number of replicas: the peers' rules, one file each, and the operator's own law."""
