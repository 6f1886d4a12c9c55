"""The outside of the console: what a person may read of a cluster, kept current."""
