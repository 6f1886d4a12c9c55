"""The proven optimum of a pass, computed apart from every solver."""
