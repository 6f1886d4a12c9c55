"""The live loop's shell: signals in the background, and one turn for one object."""
