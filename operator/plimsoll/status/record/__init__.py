"""The record of a deployment in its status: one description of each value, which writes it and reads it back."""
