"""What a decision is made from and what it is: the situation of one deployment with its bounds, and the decisions."""
