"""How long many deployments take on a real control plane, and what the operator costs meanwhile."""
