"""Types and arithmetic that every other part shares; imports numpy and nothing heavier."""
