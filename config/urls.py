from django.contrib import admin
from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from .slashes import other_spelling

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerView.as_view(url_name="schema"), name="docs"),
    path("api/v1/", include("agents.urls")),
    path("api/v1/", include("functions.urls")),
    path("api/v1/", include("connectors.urls")),
    path("api/v1/", include("devices.urls")),
    path("api/v1/", include("runs.urls")),
    re_path(r"^api/v1/(?P<rest>.*)$", other_spelling),
    path("", include("runs.page_urls")),
]
