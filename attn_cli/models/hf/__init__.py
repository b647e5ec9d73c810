"""Real models by transformers: loading, input, and attention seen without changing the model."""
