"""The OAuth rows of MCP clients are not in the admin: each authorization is an API key there."""

import oauth2_provider.admin  # noqa: F401  (registers them, if that has not happened yet)
from django.contrib import admin
from oauth2_provider import models

for model in (models.AccessToken, models.Application, models.Grant, models.IDToken, models.RefreshToken):
    admin.site.unregister(model)
