"""Facts from outside the cluster, and of single objects in it: looked up in the background and kept in memory."""
