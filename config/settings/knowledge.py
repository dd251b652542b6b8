"""Memories and collections: limits, and the functions of runs that they use."""

from config.settings.environment import env

# memories of one person, or of one agent or team
MEMORIES_PER_PERSON = env.int("MUSTER_MEMORIES_PER_PERSON", default=1000)
# documents of one collection
DOCUMENTS_PER_COLLECTION = env.int("MUSTER_DOCUMENTS_PER_COLLECTION", default=100_000)
# pieces of one document; a document that gives more has failed
CHUNKS_PER_DOCUMENT = env.int("MUSTER_CHUNKS_PER_DOCUMENT", default=10_000)
# Pieces of all documents of one person's collections, with earlier versions: a small file can contain much text, which
# the quota of files does not count
CHUNKS_PER_PERSON = env.int("MUSTER_CHUNKS_PER_PERSON", default=1_000_000)
# minimum cosine similarity of a piece and a question; depends on the embedding model
COLLECTION_NEAR = env.float("MUSTER_COLLECTION_NEAR", default=0.3)
# seconds in which the embedding model must answer a question; after that, words alone are compared
COLLECTION_QUESTION_S = env.float("MUSTER_COLLECTION_QUESTION_S", default=1.0)
# seconds in which a device must answer a search of a collection; after that, the rest is answered without it
COLLECTION_DEVICE_S = env.float("MUSTER_COLLECTION_DEVICE_S", default=1.5)
# seconds between two readings of a mail or chat account of a collection
COLLECTION_ACCOUNTS_S = env.float("MUSTER_COLLECTION_ACCOUNTS", default=900.0)
# folders of devices in one collection, of one person; and as many accounts
COLLECTION_FOLDERS_EACH = env.int("MUSTER_COLLECTION_FOLDERS", default=10)
# changes of memories that one message may lead to, with all runs that it starts
MEMORIES_PER_RUN = env.int("MUSTER_MEMORIES_PER_RUN", default=20)
# changes by agents of one person's memories in 24 hours; runs with text of strangers may use half
MEMORIES_PER_DAY = env.int("MUSTER_MEMORIES_PER_DAY", default=200)
# seconds without a message after which an agent with memory_summary notes facts of a conversation
MEMORY_SUMMARY_AFTER_S = env.float("MUSTER_MEMORY_SUMMARY_AFTER", default=900.0)
# suggestions of one person that wait for a decision; runs with text of strangers may fill half
MEMORY_SUGGESTIONS = env.int("MUSTER_MEMORY_SUGGESTIONS", default=100)

# makes the vectors of questions for a collection with an embedding model
COLLECTION_VECTORS = "runs.worker.document_vectors.of_questions"
# the module that asks devices for excerpts of the folders of a collection
