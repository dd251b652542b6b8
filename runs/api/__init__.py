"""The REST and WebSocket API of runs, sessions, chains, schedules, budgets and files."""
