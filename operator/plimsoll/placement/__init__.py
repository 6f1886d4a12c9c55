"""Choose a GPU type and a split from estimates and the fleet, and give the reasons against the others."""
