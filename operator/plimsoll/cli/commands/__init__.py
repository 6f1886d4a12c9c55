"""One module for each command, which alone imports what the command needs; each holds a ``command``."""
