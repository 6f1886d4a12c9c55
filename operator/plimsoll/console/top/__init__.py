"""``plimsoll top``: the fleet in a terminal, from the same views as the pages."""
