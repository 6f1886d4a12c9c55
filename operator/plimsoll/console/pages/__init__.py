"""One module a page: the URL in, a template and its values out."""
