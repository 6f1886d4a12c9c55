"""One module for each command. Only this module imports what the command needs; each defines a ``command``."""
