"""The situations, in sets that never mix: laws are tuned on one and judged on another; the third has days before."""
