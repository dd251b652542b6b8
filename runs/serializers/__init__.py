"""Rows of runs, chains and schedules as JSON."""
