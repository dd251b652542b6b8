"""Reads the documents of collections: fetches pages, parses files in the sandbox, and puts them into the index."""
