"""The situations, in two sets that never mix: laws are tuned on one, and judged on the other."""
