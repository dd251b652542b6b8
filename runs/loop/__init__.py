"""The loop of an agent's run: model, tool calls, model, until there is a reply."""
