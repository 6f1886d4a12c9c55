"""Steps 1 to 4 of a pass, and what a pass carries to the next one."""
