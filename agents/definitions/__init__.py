"""Definitions: the rows of an author as YAML files, read and written."""
