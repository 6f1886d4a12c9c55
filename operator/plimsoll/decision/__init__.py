"""The decision about every InferenceDeployment: ``decide(world, memory)`` takes values and returns values."""
