"""The pure core of the live loop: it makes one decision from the engines' metrics. No I/O, no clock, no randomness."""
