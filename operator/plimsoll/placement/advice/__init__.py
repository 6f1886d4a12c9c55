"""Advice: changes that would make a request fit, or make it cheaper. None is ever made here."""
