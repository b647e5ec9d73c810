"""What a plan leaves unsaid, worked out from names, source and shapes, and from trial calls."""
