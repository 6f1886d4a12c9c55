"""The operator's decision before it happens: one pass over a cluster with changes that nobody has made yet."""
