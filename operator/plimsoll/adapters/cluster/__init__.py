"""The API server: requests to it, lists, watches, and what may go wrong."""
