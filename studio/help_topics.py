"""Which document the “?” of each page opens: the name of the page's route → the document in `docs/howto/`."""

TOPICS = {
    "dashboard": "runs", "runs": "runs", "run": "runs", "run-compare": "runs", "run-raw": "runs",
    "playground": "chat", "sessions": "chat", "session": "chat", "prompts": "chat",
    "approvals": "approvals", "approval-decide": "approvals", "approval-link": "approvals",
    "schedules": "schedules", "schedule": "schedules",
    "files": "files", "collections": "collections", "collection": "collections", "document": "collections",
    "memories": "memory", "memory": "memory",
    "records": "records", "record": "records", "record-new": "records",
    "agents": "agents", "agent": "agents", "agent-new": "agents",
    "functions": "functions", "function": "functions", "function-new": "functions",
    "skills": "skills", "skill": "skills",
    "chains": "chains", "chain": "chains",
    "devices": "devices", "device": "devices", "device-pair": "devices",
    "providers": "models", "provider": "models",
    "connections": "connections", "connection": "mcp",
    "clients": "client", "embeds": "embed", "embed": "embed",
    "audit": "security",
    "people": "people", "person": "people", "teams": "people", "team": "people",
}  # fmt: skip
