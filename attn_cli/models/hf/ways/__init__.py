"""Ways of running the same tokens: alone, padded, in a batch, with a cache, in chunks, packed."""
