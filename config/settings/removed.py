"""Settings that are constants now. A site that sets one is told at its start what holds instead."""

from collections.abc import Mapping

from django.core.exceptions import ImproperlyConfigured

REMOVED = {
    "MUSTER_APPROVAL_LINK": "a link to an approval is good for a day",
    "MUSTER_CHUNKS_PER_DOCUMENT": "a document can have 10,000 pieces",
    "MUSTER_COLLECTION_ACCOUNTS": "accounts of collections are read every 15 minutes",
    "MUSTER_COLLECTION_DEVICE_S": "a device has 1.5 seconds to answer a search of a collection",
    "MUSTER_COLLECTION_FOLDERS": "a person can add 10 folders and 10 accounts to a collection",
    "MUSTER_DEVICE_HOLD": "a worker waits 2 seconds for a device before it frees its thread",
    "MUSTER_DOCUMENTS_PER_COLLECTION": "a collection can have 100,000 documents",
    "MUSTER_FILES_PER_PERSON": "a person can have 10,000 files; MUSTER_FILE_BYTES_PER_PERSON limits their size",
    "MUSTER_FILE_SCAN_S": "a scan of a file may take 30 seconds",
    "MUSTER_INTERPRETER_WAIT": "a worker keeps the variables of run_python for 10 minutes while its run waits",
    "MUSTER_MAX_WEBHOOKS": "a person can have 50 webhooks",
    "MUSTER_MEMORIES_PER_DAY": "agents can change the memories of a person 200 times a day",
    "MUSTER_MEMORIES_PER_RUN": "a message can lead to 20 changes of memories",
    "MUSTER_MEMORY_SUGGESTIONS": "100 suggestions of a person can wait for a decision",
    "MUSTER_MEMORY_SUMMARY_AFTER": "facts of a conversation are noted 15 minutes after its last message",
    "MUSTER_MODEL_BACKOFF": "a model server is asked again after 0.5 seconds, and then after 1 second",
    "MUSTER_NOTICE_AFTER": "people are notified of an approval or question that has been open for 10 seconds",
    "MUSTER_WITHDRAW_ON_VIOLATION": "a function version that attacks the sandbox is always withdrawn",
}


def refuse_removed_settings(environment: Mapping[str, str]) -> None:
    """Raises ImproperlyConfigured."""
    removed = sorted(REMOVED.keys() & environment.keys())
    if not removed:
        return
    lines = [f"{name} is no longer a setting: {REMOVED[name]}." for name in removed]
    lines.append("Remove it from the environment.")
    raise ImproperlyConfigured(" ".join(lines))
