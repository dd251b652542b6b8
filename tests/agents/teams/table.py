"""Who may do what with a row of each kind, as docs/security.md promises it: one literal table, tested cell by cell."""

PEOPLE = ("owner", "administrator", "author", "operator", "viewer", "stranger", "superuser")
VERBS = ("see", "use", "change", "share", "delete")

# Who may do it. What nobody may do there is "" and what the kind does not have is None.
MEMBERS = "owner administrator author operator viewer"
USERS = "owner administrator author operator"
OWNER = "owner"
ADMINS = "administrator"
EVERYBODY = " ".join(PEOPLE)

SHARED = {"see": MEMBERS, "use": USERS, "change": OWNER, "share": OWNER, "delete": OWNER}
ACTING = {"see": MEMBERS, "use": OWNER, "change": OWNER, "share": OWNER, "delete": OWNER}
PERSONAL = {"see": OWNER, "use": OWNER, "change": OWNER, "share": None, "delete": OWNER}

TABLE = {
    "agent": SHARED,
    "function": SHARED,
    "chain": SHARED,
    "connection": SHARED,
    "provider": SHARED,
    "secret": SHARED,
    "tool": {**SHARED, "change": None, "share": None, "delete": None},  # follows its function, agent or connection
    "grant": {"see": MEMBERS, "use": USERS, "change": OWNER, "share": None, "delete": OWNER},  # of a shared agent
    "hook": {"see": MEMBERS, "use": None, "change": OWNER, "share": None, "delete": OWNER},  # of a shared agent
    "function test": {"see": MEMBERS, "use": OWNER, "change": OWNER, "share": None, "delete": OWNER},
    "version": {"see": MEMBERS, "use": USERS, "change": OWNER, "share": None, "delete": None},  # change: roll back
    "prompt": {**SHARED, "use": None},  # using it is reading it
    "schedule": ACTING,
    "trigger": ACTING,
    "team": {"see": MEMBERS, "use": None, "change": ADMINS, "share": ADMINS,
             "delete": ADMINS},  # share: invite
    "team budget": {"see": MEMBERS, "use": None, "change": ADMINS, "share": None, "delete": ADMINS},
    "budget": {**PERSONAL, "use": None},
    "webhook": PERSONAL,
    "embed": PERSONAL,  # use: another key
    "key": {**PERSONAL, "change": None},
    "session": {**PERSONAL},
    "shared link": {**PERSONAL, "use": EVERYBODY},  # to a session; use: open it, also without an account
    "run": {**PERSONAL, "delete": None},  # use: run it again; change: cancel it
    "feedback": {**PERSONAL, "use": None},  # on a run
    "approval": {**PERSONAL, "change": None, "delete": None},  # use: decide
    "device": PERSONAL,
    "record": PERSONAL,  # use: approve
    "skill": SHARED,
    "memory": {"see": MEMBERS, "use": None, "change": "owner administrator", "share": None,
               "delete": "owner administrator"},  # of a team
    "collection": SHARED,  # use: search it
    "file": {**PERSONAL, "change": None},
    "item": {**PERSONAL, "use": None},  # of the store of the LangGraph API
    "execution": {**PERSONAL, "change": None},
    "audit event": {"see": "owner superuser"},
    "invitation": {**PERSONAL, "change": None},  # use: accept; delete: decline
}  # fmt: skip


def people_of(kind: str, verb: str) -> list[tuple[str, bool]]:
    """Each person, and whether the table lets them."""
    allowed = (TABLE[kind][verb] or "").split()
    return [(person, person in allowed) for person in PEOPLE]
