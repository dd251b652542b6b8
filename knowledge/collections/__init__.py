"""Collections: documents that agents search, their revisions, and the search."""
