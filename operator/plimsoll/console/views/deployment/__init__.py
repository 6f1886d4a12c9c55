"""One deployment: where it is and why, what its pods do, and what else was asked."""
