"""View models: values in, values out. No I/O, no clock, no HTML."""
