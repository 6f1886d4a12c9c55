"""Raw objects into values: ``models`` reads what models publish of themselves, ``cluster`` what a cluster shows."""
