"""What people and agents know: memories, and collections of documents that can be searched."""
