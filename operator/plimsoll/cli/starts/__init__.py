"""Starts of engines without an operator: written commands, and logs that ``plimsoll learn`` reads."""
