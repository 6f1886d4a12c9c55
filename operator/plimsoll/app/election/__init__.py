"""The lease of the one writer."""
