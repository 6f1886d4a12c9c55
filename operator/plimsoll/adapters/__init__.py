"""What talks to the world: one module for each neighbour, each turning its failures into domain errors or values."""
