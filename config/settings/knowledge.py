"""Memories and collections: limits, and the functions of runs that they use."""

from config.settings.environment import env

# memories of one person, or of one agent or team
MEMORIES_PER_PERSON = env.int("MUSTER_MEMORIES_PER_PERSON", default=1000)
# Pieces of all documents of one person's collections, with earlier versions: a small file can contain much text, which
# the quota of files does not count
CHUNKS_PER_PERSON = env.int("MUSTER_CHUNKS_PER_PERSON", default=1_000_000)
# minimum cosine similarity of a piece and a question; depends on the embedding model
COLLECTION_NEAR = env.float("MUSTER_COLLECTION_NEAR", default=0.3)
# seconds in which the embedding model must answer a question; after that, words alone are compared
COLLECTION_QUESTION_S = env.float("MUSTER_COLLECTION_QUESTION_S", default=1.0)

# makes the vectors of questions for a collection with an embedding model
COLLECTION_VECTORS = "runs.worker.document_vectors.of_questions"
# the module that asks devices for excerpts of the folders of a collection
