"""The diagnosis of a deployment under its load, before any bound and any change."""
