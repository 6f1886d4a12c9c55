"""The load that a replica carries: the capacity law, and the number of replicas that a load needs by it."""
