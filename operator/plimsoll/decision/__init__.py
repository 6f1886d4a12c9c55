"""What becomes of every InferenceDeployment: ``decide(world, memory)`` takes values and returns values."""
