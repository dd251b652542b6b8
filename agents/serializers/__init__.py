"""Rows of this app as JSON."""
