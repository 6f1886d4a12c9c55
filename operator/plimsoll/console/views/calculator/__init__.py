"""The calculator: its form, and the answers of ``plimsoll estimate``."""
