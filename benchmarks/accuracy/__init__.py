"""How far our memory estimate and those of its peers are from what vLLM printed: one table, from carried data."""
