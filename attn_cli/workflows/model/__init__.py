"""model: what attention does in a real checkpoint, one part a file."""
