"""What a worker process does: take runs, execute them, recover lost ones, prune old ones."""
