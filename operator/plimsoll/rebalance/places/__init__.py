"""Other places for a deployment: faster or cheaper ones, and when they are looked for."""
