"""What is wrong with a deployment under its load, before any bound and any change."""
