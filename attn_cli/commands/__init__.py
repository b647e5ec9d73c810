"""The command line: parses, calls one workflow, hands its result to one renderer."""
