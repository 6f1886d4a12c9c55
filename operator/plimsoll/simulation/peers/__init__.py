"""The scaling laws of other projects: how many replicas each would want, by what it sees."""
