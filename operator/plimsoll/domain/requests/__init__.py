"""Requests: what a user wants to have served."""
