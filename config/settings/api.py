"""The JSON API: Django REST framework and its OpenAPI document."""

from config.settings.site import FORCE_SCRIPT_NAME

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "agents.http.authentication.ApiKeyAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["agents.http.authentication.HasScope"],
    "DEFAULT_RENDERER_CLASSES": ["agents.http.renderers.TextsRenderer"],
    "DEFAULT_PARSER_CLASSES": ["agents.http.parsers.JSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "agents.http.negotiation.Negotiation",
    "DEFAULT_THROTTLE_CLASSES": ["agents.http.throttles.Rate"],
    "DEFAULT_PAGINATION_CLASS": "agents.http.pagination.Cursor",
    "DEFAULT_FILTER_BACKENDS": ["agents.http.filters.Filters", "agents.http.filters.Search"],
    "DEFAULT_SCHEMA_CLASS": "agents.http.openapi.Schema",
    "DEFAULT_METADATA_CLASS": "agents.http.metadata.Metadata",
    "EXCEPTION_HANDLER": "config.errors.handle",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Muster",
    "DESCRIPTION": "Agents, tools, stored functions and chains as rows; runs to watch, approve and resume.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVERS": [{"url": FORCE_SCRIPT_NAME}] if FORCE_SCRIPT_NAME else [],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "config.schema.any_value",
        "config.schema.empty_or_address",
        "config.schema.opaque_ids",
        "config.schema.rows_of_lists",
    ],
    "ENUM_NAME_OVERRIDES": {
        "EffectEnum": "agents.models.tool.Tool.Effect",
        "ToolKindEnum": "agents.models.tool.Tool.Kind",
        "TriggerKindEnum": "runs.models.trigger.Trigger.Kind",
        "TeamRoleEnum": "agents.models.team.Membership.Role",
        "MessageRoleEnum": "runs.models.session.Message.Role",
        "EndingEnum": "runs.api.external.ENDINGS",
        "ReplyFormEnum": "agents.models.agent.Agent.A2aReply",
        "AskedPriorityEnum": "runs.serializers.messages.BATCH_ALONE",
        "DocumentStatusEnum": "knowledge.models.collection.Document.Status",
        "DocumentSourceEnum": "knowledge.models.collection.Document.Source",
        "MemoryKindEnum": "knowledge.models.memory.Memory.Kind",
        "MemoryStatusEnum": "knowledge.models.memory.Memory.Status",
    },
}
