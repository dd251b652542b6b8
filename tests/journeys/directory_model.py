"""What a language model would do as the local directory agents: group, read, create one task for each file."""

import json
import re
import threading
from collections.abc import Callable
from typing import Any

from tests.fakes import Turn, calls, join_text, says

AGAIN = "can safely be called again"
AWAY = "did not come online"


class DirectoryModel:
    """`StubOpenAI.otherwise`. `before(number)` is called before the answer to each request, counted from 1."""

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.before: Callable[[int, str], None] = lambda number, moment: None
        self.count = 0
        self.lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Turn:
        with self.lock:
            self.count += 1
            number = self.count
        moment, turn = self.answer(body["messages"])
        self.before(number, moment)
        return Turn(text=turn.text, calls=turn.calls, silent_s=self.delay_s)

    def answer(self, messages: list[dict[str, Any]]) -> tuple[str, Turn]:
        asked = " ".join(join_text(message) for message in messages if message["role"] != "tool")
        files = sorted(set(re.findall(r"[\w./-]+\.md", asked)))
        made = answered(messages)
        if "Group the files" in asked:
            return self.group(files, made)
        return self.process(files, made)

    def group(self, files: list[str], made: list[tuple[str, dict, str]]) -> tuple[str, Turn]:
        if not made:
            return "look", calls(("list_all_projects", {}), ("get_file_metadata", {"path": files[0]}))
        half = len(files) // 2
        groups = {"p-1": files[:half], "standalone": files[half:]}
        return "grouped", says(json.dumps({key: value for key, value in groups.items() if value}))

    def process(self, files: list[str], made: list[tuple[str, dict, str]]) -> tuple[str, Turn]:
        """Reads all files, then writes one task after the other; what got no answer is asked again."""
        if any(AWAY in said for _, _, said in made):
            return "away", says("The device is away.")
        read = {
            arguments["path"] for name, arguments, said in made if name == "read_file_content" and AGAIN not in said
        }
        if missing := [file for file in files if file not in read]:
            return "read", calls(*(("read_file_content", {"path": file}) for file in missing))
        kept = {arguments["title"] for name, arguments, _ in made if name == "create_task"}
        if missing := [file for file in files if file not in kept]:
            return "create", calls(("create_task", {"title": missing[0]}))
        return "done", says(f"{len(files)} tasks were created.")


def answered(messages: list[dict[str, Any]]) -> list[tuple[str, dict, str]]:
    """(tool, arguments, answer) of the calls so far."""
    asked = {
        call["id"]: (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for message in messages
        for call in message.get("tool_calls") or []
    }
    return [(*asked[one["tool_call_id"]], join_text(one)) for one in messages if one["role"] == "tool"]
