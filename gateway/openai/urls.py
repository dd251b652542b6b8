from django.urls import path

from . import chat, compact, embeddings, files, responses, views

urlpatterns = [
    path("models", views.ModelsView.as_view(), name="openai-models"),
    path("models/<str:name>", views.ModelView.as_view(), name="openai-model"),
    path("chat/completions", chat.ChatView.as_view(), name="openai-chat"),
    path("responses", responses.ResponsesView.as_view(), name="openai-responses"),
    path("responses/compact", compact.CompactView.as_view(), name="openai-compact"),
    path("responses/<str:id>", responses.ResponseView.as_view(), name="openai-response"),
    path("responses/<str:id>/cancel", responses.CancelView.as_view(), name="openai-cancel"),
    path("responses/<str:id>/input_items", responses.InputItemsView.as_view(), name="openai-input-items"),
    path("embeddings", embeddings.EmbeddingsView.as_view(), name="openai-embeddings"),
    path("files", files.FilesView.as_view(), name="openai-files"),
    path("files/<str:id>", files.FileView.as_view(), name="openai-file"),
    path("files/<str:id>/content", files.ContentView.as_view(), name="openai-file-content"),
]
