"""Facts of conversations that have rested become memories, for agents that are set so (`Agent.memory_summary`)."""
