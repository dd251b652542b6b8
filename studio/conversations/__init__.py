"""The pages on which people talk to agents, and what agents remember of it."""
