from .account import AccountItem, CollectionAccount
from .collection import Chunk, ChunkVector, Collection, Document
from .evaluation import Evaluation, EvaluationQuestion
from .folder import CollectionFolder
from .memory import Memory, MemoryVersion, MemoryWrite
from .skill import Skill, SkillVersion

__all__ = [
    "AccountItem",
    "Chunk",
    "ChunkVector",
    "Collection",
    "CollectionAccount",
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
