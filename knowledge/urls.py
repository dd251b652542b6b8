from typing import Any

from django.urls import path

from agents.http.viewsets import routed
from knowledge.memory.api import MemoryViewSet


def memory(**verbs: str) -> Any:
    return routed(MemoryViewSet, **verbs)


MEMORY = "memory/<uuid:pk>"
urlpatterns = [
    path("memory/", MemoryViewSet.as_view({"get": "list", "post": "create"}), name="memories"),
    path("memory/search", memory(get="search"), name="memory-search"),
    path("memory/export", memory(get="export"), name="memory-export"),
    path("memory/import", memory(post="bring_in"), name="memory-import"),
    path("memory/erase", memory(delete="erase"), name="memory-erase"),
    path(MEMORY, memory(get="retrieve", patch="partial_update", delete="destroy"), name="memory"),
    path(f"{MEMORY}/approve", memory(post="approve"), name="memory-approve"),
    path(f"{MEMORY}/reject", memory(post="reject"), name="memory-reject"),
    path(f"{MEMORY}/versions/", memory(get="versions"), name="memory-versions"),
    path(f"{MEMORY}/diff", memory(get="diff"), name="memory-diff"),
    path(f"{MEMORY}/rollback", memory(post="rollback"), name="memory-rollback"),
]
