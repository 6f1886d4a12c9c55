"""Weights from where they are published to a folder: sources that list and read files, and copies that are whole."""
