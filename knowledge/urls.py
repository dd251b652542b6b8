from typing import Any

from django.urls import path

from agents.http.viewsets import make_view
from knowledge.agent_file_api import AgentFileToolsView
from knowledge.collections.api import CollectionViewSet, DocumentViewSet
from knowledge.collections.evaluation_api import EvaluationViewSet, QuestionViewSet
from knowledge.collections.folder_api import FolderViewSet
from knowledge.indexing.account_api import CollectionAccountViewSet
from knowledge.memory.api import MemoryViewSet
from knowledge.skills.api import SkillViewSet
from knowledge.skills.scripts import ScriptView


def memory(**verbs: str) -> Any:
    return make_view(MemoryViewSet, **verbs)


def documents(**verbs: str) -> Any:
    return make_view(DocumentViewSet, **verbs)


def skill(**verbs: str) -> Any:
    return make_view(SkillViewSet, **verbs)


COLLECTION = "collections/<str:name>"
DOCUMENT = f"{COLLECTION}/documents/<uuid:pk>"
MEMORY = "memory/<uuid:pk>"
SKILL = "skills/<str:name>"
ROW = {"get": "retrieve", "put": "update", "patch": "partial_update", "delete": "destroy"}
urlpatterns = [
    path("memory/", MemoryViewSet.as_view({"get": "list", "post": "create"}), name="memories"),
    path("memory/search", memory(get="search"), name="memory-search"),
    path("memory/export", memory(get="export"), name="memory-export"),
    path("memory/import", memory(post="bring_in"), name="memory-import"),
    path("memory/import/functions", AgentFileToolsView.as_view(), name="memory-import-functions"),
    path("memory/erase", memory(delete="erase"), name="memory-erase"),
    path(MEMORY, memory(get="retrieve", patch="partial_update", delete="destroy"), name="memory"),
    path(f"{MEMORY}/approve", memory(post="approve"), name="memory-approve"),
    path(f"{MEMORY}/reject", memory(post="reject"), name="memory-reject"),
    path(f"{MEMORY}/versions/", memory(get="versions"), name="memory-versions"),
    path(f"{MEMORY}/diff", memory(get="diff"), name="memory-diff"),
    path(f"{MEMORY}/rollback", memory(post="rollback"), name="memory-rollback"),
    path("collections/", CollectionViewSet.as_view({"get": "list", "post": "create"}), name="collections"),
    path(
        COLLECTION,
        CollectionViewSet.as_view({"get": "retrieve", "put": "update", "patch": "partial_update", "delete": "destroy"}),
        name="collection",
    ),
    path(f"{COLLECTION}/search", make_view(CollectionViewSet, post="search"), name="collection-search"),
    path(f"{COLLECTION}/questions/", QuestionViewSet.as_view({"get": "list", "post": "create"}), name="questions"),
    path(f"{COLLECTION}/questions/<uuid:pk>", make_view(QuestionViewSet, delete="destroy"), name="question"),
    path(f"{COLLECTION}/evaluate", make_view(EvaluationViewSet, post="evaluate"), name="collection-evaluate"),
    path(f"{COLLECTION}/evaluations/", EvaluationViewSet.as_view({"get": "list"}), name="evaluations"),
    path(f"{COLLECTION}/documents/", DocumentViewSet.as_view({"get": "list", "post": "create"}), name="documents"),
    path(DOCUMENT, documents(get="retrieve", delete="destroy"), name="document"),
    path(f"{DOCUMENT}/text", documents(get="text"), name="document-text"),
    path(f"{DOCUMENT}/reindex", documents(post="reindex"), name="document-reindex"),
    path(f"{DOCUMENT}/erase", documents(delete="erase"), name="document-erase"),
    path(f"{COLLECTION}/folders/", make_view(FolderViewSet, get="list", post="create"), name="folders"),
    path(f"{COLLECTION}/folders/<uuid:pk>", make_view(FolderViewSet, delete="destroy"), name="folder"),
    path(
        f"{COLLECTION}/accounts/",
        make_view(CollectionAccountViewSet, get="list", post="create"),
        name="collection-accounts",
    ),
    path(
        f"{COLLECTION}/accounts/<uuid:pk>",
        make_view(CollectionAccountViewSet, delete="destroy"),
        name="collection-account",
    ),
    path("skills/", SkillViewSet.as_view({"get": "list", "post": "create"}), name="skills"),
    path(SKILL, skill(**ROW), name="skill"),
    path(f"{SKILL}/publish", skill(post="publish"), name="skill-publish"),
    path(f"{SKILL}/rollback", skill(post="rollback"), name="skill-rollback"),
    path(f"{SKILL}/versions/", skill(get="versions"), name="skill-versions"),
    path(f"{SKILL}/versions/<int:number>", skill(get="version"), name="skill-version"),
    path(f"{SKILL}/diff", skill(get="diff"), name="skill-diff"),
    path(f"{SKILL}/export", skill(get="export"), name="skill-export"),
    path(f"{SKILL}/files/<path:path>", skill(get="file"), name="skill-file"),
    path(f"{SKILL}/functions", ScriptView.as_view(), name="skill-functions"),
    path(f"{SKILL}/used-by", skill(get="used_by"), name="skill-used-by"),
]
