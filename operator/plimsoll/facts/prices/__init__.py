"""Facts about prices: the order of cards, what is doubtful about a price, and the types with the prices in force."""
