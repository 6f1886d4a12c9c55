"""Values of a status in words: places, prices, weights, routers, approvals, what was learned, and what helps."""
