"""The part of the memory law that is the same for every engine: from model facts to bytes of one rank."""
