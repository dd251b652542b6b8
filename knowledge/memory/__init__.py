"""Memories: written by agents and people, reviewed by people, put into prompts."""
