"""Figures about runs: dashboard, metrics, usage, track records."""
