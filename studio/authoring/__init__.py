"""The pages on which people build: agents, chains, functions, prompts, and agents for visitors."""
