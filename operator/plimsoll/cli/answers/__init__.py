"""Answers of ``plimsoll estimate``: what is printed, in which order and words."""
