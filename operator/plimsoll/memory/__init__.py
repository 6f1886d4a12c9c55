"""From model facts to bytes of one rank, as far as they are the same for every engine."""
