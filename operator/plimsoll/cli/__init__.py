"""The command line: the same core as the operator, for pipelines and for people."""
