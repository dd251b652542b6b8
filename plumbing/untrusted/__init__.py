"""Reads what people and strangers send, in a child process with limits where parsing could cost too much."""
