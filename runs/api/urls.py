from functools import partial
from typing import Any

from django.urls import path

from agents.http.viewsets import make_view

from . import (
    account,
    agents,
    approvals,
    budgets,
    chains,
    consumers,
    definitions,
    embeds,
    executor,
    external,
    feedback,
    figures,
    files,
    inputs,
    messages,
    runs,
    schedules,
    sessions,
    shares,
)

run = partial(make_view, runs.RunViewSet)
prepared = partial(make_view, external.PreparedRunViewSet)
outside = partial(make_view, external.ExternalViewSet)
claimed = partial(make_view, executor.ExecutorViewSet)
session = partial(make_view, sessions.SessionViewSet)
push = partial(make_view, account.PushViewSet)
approval = partial(make_view, approvals.ApprovalViewSet)
input_request = partial(make_view, inputs.InputRequestViewSet)
budget = partial(make_view, budgets.BudgetViewSet)
embed = partial(make_view, embeds.EmbedViewSet)
file = partial(make_view, files.FileViewSet)
chain = partial(make_view, chains.ChainViewSet)
chain_run = partial(make_view, chains.ChainRunViewSet)
schedule = partial(make_view, schedules.ScheduleViewSet)
trigger = partial(make_view, schedules.TriggerViewSet)
webhook = partial(make_view, schedules.WebhookViewSet)

LIST: dict[str, Any] = {"get": "list", "post": "create"}
ROW: dict[str, Any] = {"get": "retrieve", "put": "update", "patch": "partial_update", "delete": "destroy"}

urlpatterns = [
    path("agents/<slug:name>/messages", messages.MessagesView.as_view(), name="agent-messages"),
    path("messages", messages.RoutedMessagesView.as_view(), name="messages"),
    path("messages/route", messages.RouteView.as_view(), name="messages-route"),
    path("runs/", prepared(get="list", post="prepare"), name="run-list"),
    path("runs/<uuid:pk>/claim", outside(post="claim"), name="run-claim"),
    path("runs/<uuid:pk>/heartbeat", outside(post="heartbeat"), name="run-heartbeat"),
    path("runs/<uuid:pk>/finish", outside(post="finish"), name="run-finish"),
    path("executor/", claimed(get="work"), name="executor"),
    path("executor/tools/", claimed(get="tools"), name="executor-tools"),
    path("executor/calls/", claimed(get="calls", post="call"), name="executor-calls"),
    path("executor/calls/<uuid:id>", claimed(get="one_call"), name="executor-call"),
    path("executor/artifacts/", claimed(get="artifacts", post="add_artifact"), name="executor-artifacts"),
    path("executor/heartbeat", claimed(post="heartbeat"), name="executor-heartbeat"),
    path("executor/finish", claimed(post="finish"), name="executor-finish"),
    path("workers/", external.WorkerViewSet.as_view({"get": "list"}), name="worker-list"),
    path("agents/<slug:name>/figures", external.FiguresView.as_view(), name="agent-figures"),
    path("agents/<slug:name>/used-by", agents.UsedByView.as_view(), name="agent-used-by"),
    path("runs/<uuid:pk>", run(get="retrieve"), name="run-detail"),
    path("runs/<uuid:pk>/feedback", feedback.FeedbackView.as_view(), name="run-feedback"),
    path("runs/<uuid:pk>/events", run(get="events"), name="run-events"),
    path("runs/<uuid:pk>/stream", run(get="stream"), name="run-stream"),
    path("runs/<uuid:pk>/cancel", run(post="cancel"), name="run-cancel"),
    path("runs/<uuid:pk>/empty", run(post="empty"), name="run-empty"),
    path("runs/<uuid:pk>/resume", run(post="resume"), name="run-resume"),
    path("runs/<uuid:pk>/tool-calls/", run(get="tool_calls"), name="run-tool-calls"),
    path("runs/<uuid:pk>/artifacts/", run(get="artifacts"), name="run-artifacts"),
    path("runs/<uuid:pk>/children/", run(get="children"), name="run-children"),
    path("runs/<uuid:pk>/retry", chain_run(post="retry"), name="run-retry"),
    path("runs/<uuid:pk>/steps/", chain_run(get="steps"), name="run-steps"),
    path("runs/<uuid:pk>/graph.svg", chain_run(get="picture"), name="run-picture"),
    path("chains/", chain(**LIST), name="chain-list"),
    path("chains/<str:name>", chain(**ROW), name="chain-detail"),
    path("chains/<str:name>/publish", chain(post="publish"), name="chain-publish"),
    path("chains/<str:name>/rollback", chain(post="rollback"), name="chain-rollback"),
    path("chains/<str:name>/versions/", chain(get="versions"), name="chain-versions"),
    path("chains/<str:name>/versions/<int:number>", chain(get="version"), name="chain-version"),
    path("chains/<str:name>/diff", chain(get="diff"), name="chain-diff"),
    path("chains/<str:name>/grants/", chain(get="grants", put="grants"), name="chain-grants"),
    path("chains/<str:name>/used-by", agents.ChainUsedByView.as_view(), name="chain-used-by"),
    path("chains/<str:name>/graph", chain(get="graph"), name="chain-graph"),
    path("chains/<str:name>/graph.svg", chain(get="picture"), name="chain-picture"),
    path("chains/<str:name>/runs", chain(get="runs", post="start"), name="chain-runs"),
    path("schedules/", schedule(**LIST), name="schedule-list"),
    path("schedules/<str:name>", schedule(**ROW), name="schedule-detail"),
    path("schedules/<str:name>/occurrences/", schedule(get="occurrences"), name="schedule-occurrences"),
    path("schedules/<str:name>/preview", schedule(get="preview"), name="schedule-preview"),
    path("schedules/<str:name>/run-now", schedule(post="run_now"), name="schedule-run-now"),
    path("schedules/<str:name>/pause", schedule(post="pause"), name="schedule-pause"),
    path("schedules/<str:name>/resume", schedule(post="resume"), name="schedule-resume"),
    path("triggers/", trigger(**LIST), name="trigger-list"),
    path("triggers/<str:name>", trigger(**ROW), name="trigger-detail"),
    path("triggers/<str:name>/renew-secret", trigger(post="renew_secret"), name="trigger-renew-secret"),
    path("triggers/<str:name>/firings/", trigger(get="firings"), name="trigger-firings"),
    path("hooks/<uuid:hook>", schedules.HookView.as_view(), name="hook"),
    path("webhooks/", webhook(**LIST), name="webhook-list"),
    path(
        "webhooks/<int:pk>",
        webhook(get="retrieve", patch="partial_update", delete="destroy"),
        name="webhook-detail",
    ),
    path("webhooks/<int:pk>/renew-secret", webhook(post="renew_secret"), name="webhook-renew-secret"),
    path("webhooks/<int:pk>/deliveries/", webhook(get="deliveries"), name="webhook-deliveries"),
    path(
        "webhooks/<int:pk>/deliveries/<uuid:delivery>/send-again",
        webhook(post="send_again"),
        name="webhook-send-again",
    ),
    path("sessions/", session(get="list"), name="session-list"),
    path(
        "sessions/<uuid:pk>",
        session(get="retrieve", patch="partial_update", delete="destroy"),
        name="session-detail",
    ),
    path("sessions/<uuid:pk>/share", shares.SharedLinkView.as_view(), name="session-share"),
    path("sessions/<uuid:pk>/messages/", session(get="messages"), name="session-messages"),
    path("files/", file(get="list", post="create"), name="file-list"),
    path("files/<uuid:pk>", file(get="retrieve", delete="destroy"), name="file-detail"),
    path("files/<uuid:pk>/content", file(get="content"), name="file-content"),
    path("files/<uuid:pk>/preview", file(get="preview"), name="file-preview"),
    path("budgets/", budget(get="list", post="create"), name="budget-list"),
    path(
        "budgets/<int:pk>",
        budget(get="retrieve", patch="partial_update", delete="destroy"),
        name="budget-detail",
    ),
    path("embeds/", embed(get="list", post="create"), name="embed-list"),
    path(
        "embeds/<uuid:pk>",
        embed(get="retrieve", patch="partial_update", delete="destroy"),
        name="embed-detail",
    ),
    path("embeds/<uuid:pk>/rotate", embed(post="rotate"), name="embed-rotate"),
    path("anomalies/", figures.AnomaliesView.as_view(), name="anomalies"),
    path("runs/live", figures.LiveRunsView.as_view(), name="runs-live"),
    path("usage/", budgets.UsageView.as_view(), name="usage"),
    path("inputs/", input_request(get="list"), name="input-list"),
    path("inputs/<uuid:pk>", input_request(get="retrieve", post="answer"), name="input-detail"),
    path("definitions/", definitions.DefinitionsView.as_view(), name="definitions"),
    path("definitions/plan", definitions.PlanView.as_view(), name="definitions-plan"),
    path("definitions/apply", definitions.ApplyView.as_view(), name="definitions-apply"),
    path("account/settings", account.SettingsView.as_view(), name="account-settings"),
    path("account/push/", push(get="list", post="create"), name="push-list"),
    path("account/push/key", account.PushViewSet.as_view({"get": "key"}, pagination_class=None), name="push-key"),
    path("account/push/<uuid:pk>", push(delete="destroy"), name="push-detail"),
    path("approvals/", approval(get="list"), name="approval-list"),
    path("approvals/<uuid:pk>", approval(get="retrieve", post="decide"), name="approval-detail"),
]

websocket_urlpatterns = [
    path("ws/sessions/<uuid:session_id>/", consumers.SessionConsumer.as_asgi()),
    path("ws/runs/<uuid:run_id>/", consumers.RunConsumer.as_asgi()),
]
