"""How well a law of scaling holds its promises, against those of other projects, on simulated replicas."""
