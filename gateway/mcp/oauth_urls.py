"""The library's names for its endpoints, those of them that are offered."""

from django.urls import path
from oauth2_provider.views import RevokeTokenView

from . import oauth

app_name = "oauth2_provider"
urlpatterns = [
    path("authorize/", oauth.ConsentView.as_view(), name="authorize"),
    path("token/", oauth.IssueView.as_view(), name="token"),
    path("revoke_token/", RevokeTokenView.as_view(), name="revoke-token"),
    path("register/", oauth.RegistrationView.as_view(), name="dcr-register"),
    path("register/<str:client_id>/", oauth.RegisteredView.as_view(), name="dcr-register-management"),
]
