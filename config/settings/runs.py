"""Limits of runs, workers, approvals, and how long history is kept."""

from config.settings.environment import env

# seconds that a run may take; an agent may ask for less
MAX_RUN_S = env.int("MUSTER_MAX_RUN", default=3600)
# seconds after which the run of a silent worker may be claimed by another
LEASE_S = env.int("MUSTER_LEASE", default=30)
# seconds that a stopping worker has to finish its runs, and a web server its requests
DRAIN_S = env.float("MUSTER_DRAIN", default=0.0)
# levels of agents that call agents, for runs whose root is a chain
MAX_AGENT_DEPTH = env.int("MUSTER_MAX_AGENT_DEPTH", default=1)

# Runs at work in one worker. A run that waits for its model or for a tool holds no thread (runs/worker/run_pool.py).
WORKER_RUNS = env.int("MUSTER_WORKER_RUNS", default=12_000)
# Threads for what can only block, such as stored functions; they are created when needed.
WORKER_THREADS = env.int("MUSTER_WORKER_THREADS", default=256)
# pools of runs that the workers started here take; agents and chains may name one
WORKER_POOLS = env.list("MUSTER_WORKER_POOLS", default=["default"])

APPROVAL_S = env.int("MUSTER_APPROVAL", default=86_400)  # seconds a person has to answer; the run's time stands still
# decision when an approval expires: deny or approve
APPROVAL_DEFAULT = env.str("MUSTER_APPROVAL_DEFAULT", default="deny")
SHARED_LINKS = env.bool("MUSTER_SHARED_LINKS", default=False)  # people may share a conversation by a public link
ASK_EFFECTS = env.list("MUSTER_ASK_EFFECTS", default=[])  # effects that always need approval, such as destructive

# bytes of all messages of one person, of their runs and of their direct calls of functions; visitors of their embeds
# have a quarter of it beside; 0 means no limit
RUN_BYTES_PER_PERSON = env.int("MUSTER_RUN_BYTES_PER_PERSON", default=4 << 30)

# Days that history is kept, by kind (`manage.py prune`).
KEEP_DAYS = {
    "raw": env.int("MUSTER_KEEP_RAW_DAYS", default=14),  # days that raw model requests and responses are kept
    "events": env.int("MUSTER_KEEP_EVENTS_DAYS", default=90),  # days that events of runs are kept
    "executions": env.int("MUSTER_KEEP_EXECUTIONS_DAYS", default=90),  # days that executions of functions are kept
    "runs": env.int("MUSTER_KEEP_RUNS_DAYS", default=365),  # days that ended runs are kept
    "sessions": env.int("MUSTER_KEEP_SESSIONS_DAYS", default=365),  # days that conversations are kept
    "uploads": env.int("MUSTER_KEEP_UPLOADS_DAYS", default=365),  # days that unused uploads are kept
    "artifacts": env.int("MUSTER_KEEP_ARTIFACTS_DAYS", default=365),  # days that the files of runs are kept
    "notices": env.int("MUSTER_KEEP_NOTICES_DAYS", default=90),  # days that sent notices are kept
    "audit": env.int("MUSTER_KEEP_AUDIT_DAYS", default=730),  # days that the audit log is kept
}
KEEP_RAW = env.bool("MUSTER_KEEP_RAW", default=True)  # keep raw model requests and responses with each model call
