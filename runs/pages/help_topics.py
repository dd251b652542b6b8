"""Which document the “?” of each page opens: the name of the page's route → the document in `docs/howto/`."""

TOPICS = {
    "dashboard": "runs", "runs": "runs", "run": "runs", "run-compare": "runs", "run-raw": "runs",
    "playground": "messages", "sessions": "messages", "session": "messages",
    "approvals": "approvals", "approval-decide": "approvals",
    "schedules": "schedules", "schedule": "schedules",
    "files": "files", "collections": "files", "collection": "files", "document": "files",
    "records": "records", "record": "records", "record-new": "records",
    "agents": "agents", "agent": "agents", "agent-new": "agents",
    "functions": "functions", "function": "functions", "function-new": "functions",
    "skills": "skills", "skill": "skills",
    "chains": "chains", "chain": "chains",
    "devices": "devices", "device": "devices", "device-pair": "devices",
    "providers": "models", "provider": "models",
    "connections": "mcp", "connection": "mcp",
    "clients": "client", "embeds": "embed", "embed": "embed",
    "audit": "security",
}  # fmt: skip
