"""SGLang's memory law: a share of the memory that is free before the weights, and what must fit outside that share."""
