"""Proposals: the inbox, one proposal, and what people answered."""
