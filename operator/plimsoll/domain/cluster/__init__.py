"""The cluster: GPU types, nodes, and what they can take."""
