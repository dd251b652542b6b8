from .memory import Memory, MemoryVersion

__all__ = ["Memory", "MemoryVersion"]
