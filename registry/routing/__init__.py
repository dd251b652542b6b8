"""Routing: which agent gets a message, and why."""
