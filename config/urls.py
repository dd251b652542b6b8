from django.contrib import admin
from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularSwaggerView
from oauth2_provider.views import OAuthServerMetadataView

import agents.urls as agents
import connectors.urls as connectors
import devices.urls as devices
import functions.urls as functions
import knowledge.urls as knowledge
import runs.api.urls as runs
from config import health
from config.routes import by_first_word
from config.schema import SchemaView
from config.slashes import bad_request, other_spelling, page_not_found
from gateway import agui
from gateway.a2a.discovery import CardView
from gateway.mcp.oauth import ResourceView
from gateway.mcp.views import McpView
from runs.api.tools import ToolSearchView

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics_page, name="metrics"),
    path("admin/", admin.site.urls),
    path("api/schema/", SchemaView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerView.as_view(url_name="schema"), name="docs"),
    path("api/v1/tools/search", ToolSearchView.as_view(), name="tool-search"),  # before tools/{name}
    path("api/v1/", include(by_first_word(agents, functions, connectors, devices, knowledge, runs))),
    re_path(r"^api/v1/(?P<rest>(?s:.*))$", other_spelling),
    path("v1/", include("gateway.openai.urls")),
    path("langgraph/", include("gateway.langgraph.urls")),
    path("mcp", McpView.as_view(), name="mcp"),
    path("oauth/", include("gateway.mcp.oauth_urls")),
    path(".well-known/oauth-authorization-server", OAuthServerMetadataView.as_view(), name="oauth-server"),
    path(".well-known/oauth-protected-resource", ResourceView.as_view(), name="oauth-resource-root"),
    path(".well-known/oauth-protected-resource/<path:resource_path>", ResourceView.as_view(), name="oauth-resource"),
    path("a2a/", include("gateway.a2a.urls")),
    path(".well-known/agent-card.json", CardView.as_view(), name="a2a-card"),
    path("agui/<slug:name>", agui.AgentView.as_view(), name="agui"),
    path("agui/<slug:name>/threads/<str:thread>", agui.ThreadView.as_view(), name="agui-thread"),
    path("", include("gateway.embed.urls")),
    path("", include("studio.urls")),
]
handler400 = bad_request
handler404 = page_not_found
