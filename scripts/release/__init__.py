"""A release up to the point of pushing it: files, their digests, and what they were made of."""
