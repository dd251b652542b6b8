# Generated from _async/__init__.py by client/generate.py: change that file, then run `make reference`.
"""The synchronous client."""
