from typing import Any

from django.urls import path

from .discovery import CardView, KeysView
from .views import HttpView, OlderHttpView, RpcView


def http(**operations: str) -> Any:
    return HttpView.as_view(operations={method.upper(): name for method, name in operations.items()})


urlpatterns = [
    path("jwks.json", KeysView.as_view(), name="a2a-keys"),
    path("<slug:agent>/.well-known/agent-card.json", CardView.as_view(), name="a2a-agent-card"),
    path("<slug:agent>/.well-known/agent.json", CardView.as_view(is_older=True), name="a2a-older-card"),
    path("<slug:agent>/extendedAgentCard", http(get="GetExtendedAgentCard"), name="a2a-extended-card"),
    path("<slug:agent>", RpcView.as_view(), name="a2a"),
    path("<slug:agent>/", RpcView.as_view()),
    path("<slug:agent>/message:send", http(post="SendMessage"), name="a2a-send"),
    path("<slug:agent>/message:stream", http(post="SendStreamingMessage"), name="a2a-stream"),
    path("<slug:agent>/tasks", http(get="ListTasks"), name="a2a-tasks"),
    path("<slug:agent>/tasks/<str:id>:cancel", http(post="CancelTask"), name="a2a-cancel"),
    path(
        "<slug:agent>/tasks/<str:id>:subscribe",
        http(get="SubscribeToTask", post="SubscribeToTask"),
        name="a2a-subscribe",
    ),
    path(
        "<slug:agent>/tasks/<str:task_id>/pushNotificationConfigs",
        http(get="ListTaskPushNotificationConfigs", post="CreateTaskPushNotificationConfig"),
        name="a2a-pushes",
    ),
    path(
        "<slug:agent>/tasks/<str:task_id>/pushNotificationConfigs/<str:id>",
        http(get="GetTaskPushNotificationConfig", delete="DeleteTaskPushNotificationConfig"),
        name="a2a-push",
    ),
    path("<slug:agent>/v1/<path:operation>", OlderHttpView.as_view(), name="a2a-older-http"),
    path("<slug:agent>/tasks/<str:id>", http(get="GetTask"), name="a2a-task"),
]
