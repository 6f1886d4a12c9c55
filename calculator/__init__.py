"""The calculator as static files that any web server can serve. Python runs in the reader's browser."""
