"""Rows of model classes, by what their layers hold."""
