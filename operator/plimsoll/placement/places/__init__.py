"""Places: the best option that has room, and the reasons against the others."""
