"""The live loop from pass to pass: the last turns, and the room that others could make."""
