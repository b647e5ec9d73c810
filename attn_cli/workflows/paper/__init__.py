"""The arithmetic of one output row on paper, from the token vectors to the output."""
