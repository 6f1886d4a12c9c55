"""Rows of model classes, by the kind of their layers."""
