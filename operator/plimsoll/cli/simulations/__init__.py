"""``plimsoll simulate``: the question, and its answer as text and as a document."""
