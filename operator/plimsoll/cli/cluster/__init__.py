"""A cluster as commands see it: how it is reached, what is asked there, and what its engines have taught."""
