from django.urls import path, re_path

from . import assistants, crons, runs, store, threads, views

COUNT = {"is_count": True}
READ = ["get", "head", "options"]

urlpatterns = [
    path("ok", views.OkView.as_view()),
    path("info", views.InfoView.as_view()),
    path("assistants", assistants.AssistantsView.as_view()),
    path("assistants/search", assistants.SearchView.as_view()),
    path("assistants/count", assistants.SearchView.as_view(**COUNT)),
    path("assistants/<str:id>", assistants.AssistantView.as_view()),
    path("assistants/<str:id>/graph", assistants.GraphView.as_view()),
    path("assistants/<str:id>/schemas", assistants.SchemasView.as_view()),
    path("assistants/<str:id>/subgraphs", assistants.SubgraphsView.as_view()),
    path("assistants/<str:id>/subgraphs/<str:namespace>", assistants.SubgraphsView.as_view()),
    path("assistants/<str:id>/versions", assistants.VersionsView.as_view()),
    path("assistants/<str:id>/latest", assistants.LatestView.as_view()),
    path("threads", threads.ThreadsView.as_view()),
    path("threads/search", threads.ThreadSearchView.as_view()),
    path("threads/count", threads.ThreadSearchView.as_view(**COUNT)),
    path("threads/prune", views.UnknownView.as_view(), {"rest": "threads/prune"}),  # not the thread of this name
    path("threads/<str:id>", threads.ThreadView.as_view()),
    path("threads/<str:id>/copy", threads.CopyView.as_view()),
    path("threads/<str:id>/state", threads.StateView.as_view()),
    path("threads/<str:id>/state/checkpoint", threads.CheckpointView.as_view()),
    path("threads/<str:id>/state/<str:checkpoint>", threads.StateView.as_view(http_method_names=READ)),
    path("threads/<str:id>/history", threads.HistoryView.as_view()),
    path("threads/<str:id>/runs", runs.RunsView.as_view()),
    path("threads/<str:id>/runs/wait", runs.WaitView.as_view()),
    path("threads/<str:id>/runs/stream", runs.StreamView.as_view()),
    path("threads/<str:id>/runs/crons", crons.ThreadCronsView.as_view()),
    path("threads/<str:id>/runs/<str:run>", runs.RunView.as_view()),
    path("threads/<str:id>/runs/<str:run>/join", runs.JoinView.as_view()),
    path("threads/<str:id>/runs/<str:run>/stream", runs.JoinStreamView.as_view()),
    path("threads/<str:id>/runs/<str:run>/cancel", runs.CancelView.as_view()),
    path("runs", runs.RunsView.as_view(http_method_names=["post", "options"])),
    path("runs/batch", runs.BatchView.as_view()),
    path("runs/wait", runs.WaitView.as_view()),
    path("runs/stream", runs.StreamView.as_view()),
    path("runs/cancel", runs.CancelManyView.as_view()),
    path("runs/crons", crons.CronsView.as_view()),
    path("runs/crons/search", crons.CronSearchView.as_view()),
    path("runs/crons/count", crons.CronSearchView.as_view(**COUNT)),
    path("runs/crons/<str:id>", crons.CronView.as_view()),
    path("runs/<str:run>/stream", runs.JoinStreamView.as_view()),
    path("store/items", store.ItemsView.as_view()),
    path("store/items/search", store.ItemSearchView.as_view()),
    path("store/namespaces", store.NamespacesView.as_view()),
    re_path(r"^(?P<rest>(?s:.*))$", views.UnknownView.as_view()),
]
