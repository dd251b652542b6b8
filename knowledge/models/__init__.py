from .collection import Chunk, ChunkVector, Collection, Document
from .evaluation import Evaluation, EvaluationQuestion
from .folder import CollectionFolder
from .memory import Memory, MemoryVersion, MemoryWrite
from .skill import Skill, SkillVersion

__all__ = [
    "Chunk",
    "ChunkVector",
    "Collection",
    "CollectionFolder",
    "Document",
    "Evaluation",
    "EvaluationQuestion",
    "Memory",
    "MemoryVersion",
    "MemoryWrite",
    "Skill",
    "SkillVersion",
]
