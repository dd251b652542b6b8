"""The life of a run: queued, claimed, leased, budgeted, ended."""
