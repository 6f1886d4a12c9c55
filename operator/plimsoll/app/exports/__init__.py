"""A snapshot of everything that the operator's decision reads, in one file, and the same decision made from it."""
