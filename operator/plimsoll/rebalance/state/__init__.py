"""The input of a decision and its result: the situation of one deployment with its bounds, and the decisions."""
