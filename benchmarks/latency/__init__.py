"""How far our times per token and to the first token are from measured ones: tables from carried data, and the fit."""
