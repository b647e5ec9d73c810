"""What somebody's code does, line by line, and which lines are stages of the reference."""
