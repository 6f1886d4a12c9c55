"""Transition: what a solver awards becomes pools, new ones before old ones go."""
