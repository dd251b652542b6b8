from typing import Any

from django.urls import path

from agents import api, hook_api, people_api, sharing_api
from agents.http.viewsets import make_view

LIST: dict[str, Any] = {"get": "list", "post": "create"}
ROW: dict[str, Any] = {"get": "retrieve", "put": "update", "patch": "partial_update", "delete": "destroy"}


def agent(**verbs: str) -> Any:
    return make_view(api.AgentViewSet, **verbs)


def provider(**verbs: str) -> Any:
    return make_view(api.ProviderViewSet, **verbs)


def team(**verbs: str) -> Any:
    return make_view(api.TeamViewSet, **verbs)


def invitation(**verbs: str) -> Any:
    return make_view(api.InvitationViewSet, **verbs)


def person(**verbs: str) -> Any:
    return make_view(people_api.PersonViewSet, **verbs)


urlpatterns = [
    path("me", api.MeView.as_view(), name="me"),
    path("keys/", api.KeyViewSet.as_view(LIST), name="keys"),
    path("keys/<int:pk>", api.KeyViewSet.as_view({"get": "retrieve", "delete": "destroy"}), name="key"),
    path("providers/", api.ProviderViewSet.as_view(LIST), name="providers"),
    path("providers/<str:name>", api.ProviderViewSet.as_view(ROW), name="provider"),
    path("providers/<str:name>/models", provider(get="models"), name="provider-models"),
    path("providers/<str:name>/test", provider(post="test"), name="provider-test"),
    path("agents/", api.AgentViewSet.as_view(LIST), name="agents"),
    path("agents/<str:name>", api.AgentViewSet.as_view(ROW), name="agent"),
    path("agents/<str:name>/publish", agent(post="publish"), name="agent-publish"),
    path("agents/<str:name>/rollback", agent(post="rollback"), name="agent-rollback"),
    path("agents/<str:name>/versions/", agent(get="versions"), name="agent-versions"),
    path("agents/<str:name>/versions/<int:number>", agent(get="version"), name="agent-version"),
    path("agents/<str:name>/diff", agent(get="diff"), name="agent-diff"),
    path("agents/<str:name>/grants/", agent(get="grants", put="grants"), name="agent-grants"),
    path("tools/", api.ToolViewSet.as_view({"get": "list"}), name="tools"),
    path("tools/<str:name>", api.ToolViewSet.as_view({"get": "retrieve"}), name="tool"),
    path("teams/", api.TeamViewSet.as_view(LIST), name="teams"),
    path("teams/<str:name>", api.TeamViewSet.as_view(ROW), name="team"),
    path("teams/<str:name>/invitations/", team(get="invitations", post="invitations"), name="team-invitations"),
    path("teams/<str:name>/invitations/<int:pk>", team(delete="invitation"), name="team-invitation"),
    path("teams/<str:name>/leave", team(post="leave"), name="team-leave"),
    path("invitations/", api.InvitationViewSet.as_view({"get": "list"}), name="invitations"),
    path("invitations/<int:pk>", api.InvitationViewSet.as_view({"get": "retrieve"}), name="invitation"),
    path("invitations/<int:pk>/accept", invitation(post="accept"), name="invitation-accept"),
    path("invitations/<int:pk>/decline", invitation(post="decline"), name="invitation-decline"),
    path("prompts/", api.PromptViewSet.as_view(LIST), name="prompts"),
    path("prompts/<str:name>", api.PromptViewSet.as_view(ROW), name="prompt"),
    path("secrets/", api.SecretViewSet.as_view(LIST), name="secrets"),
    path("secrets/<str:name>", api.SecretViewSet.as_view(ROW), name="secret"),
    path("run-hooks/", hook_api.HookViewSet.as_view(LIST), name="run-hooks"),
    path(
        "run-hooks/<int:pk>",
        hook_api.HookViewSet.as_view({"get": "retrieve", "patch": "partial_update", "delete": "destroy"}),
        name="run-hook",
    ),
    path("people/", people_api.PersonViewSet.as_view(LIST), name="people"),
    path("people/<str:username>", person(get="retrieve", patch="partial_update"), name="person"),
    path("people/<str:username>/belongings", person(get="belongings"), name="person-belongings"),
    path("people/<str:username>/invitation", person(post="invitation"), name="person-invitation"),
    path("people/<str:username>/hand-over", person(post="hand_over"), name="person-hand-over"),
    path("sharing/<str:kind>/<str:name>", sharing_api.SharingView.as_view(), name="sharing"),
    path("audit/", api.AuditViewSet.as_view({"get": "list"}), name="audit"),
]
