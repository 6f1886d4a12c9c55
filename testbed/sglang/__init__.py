"""A real SGLang without a GPU: its own parser of arguments, asked in a process of its own."""
