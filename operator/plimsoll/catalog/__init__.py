"""Facts of well-known GPUs and models with the source of each figure; :mod:`plimsoll.adapters.catalog` reads them."""
