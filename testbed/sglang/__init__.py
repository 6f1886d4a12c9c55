"""A real SGLang without a GPU: its own parser of arguments, and its server with a tiny model on this machine's CPU."""
