"""The one accumulator: builds an Answer from what a model server sends, whole or piece by piece, by one set of rules
for every provider. A whole answer is a stream of one piece. Plain Python.

- An answer has ended when the server said so. A closed connection alone never counts.
- The arguments of a call are read strictly. Half an object is never completed.
- Under `length`, `content_filter` and the like no call of the answer is made, even one that could be read.
"""

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from agents.http import parsers
from registry.exceptions import AttemptFailed

from .chat import Answer, ModelToolCall
from .thinking import ThinkingSplitter, Unsplit

JSON = Any

# What servers call an answer that the model itself brought to an end, in lower case.
COMPLETE = frozenset(
    [
        "stop", "tool_calls", "function_call",  # OpenAI, and most servers that follow it
        "end_turn", "tool_use", "stop_sequence",  # Anthropic
        "eos", "eos_token", "tool_call", "complete",  # other compatible servers
    ]
)  # fmt: skip
# What they call one that was broken off, by a limit, by a filter or by a fault.
TOO_LONG = frozenset(
    [
        "length", "max_tokens", "max_output_tokens", "max_completion_tokens", "model_length", "token_limit",
        "model_context_window_exceeded", "context_length_exceeded", "incomplete",
    ]
)  # fmt: skip
FILTERED = frozenset(
    [
        "content_filter", "content_filtered", "safety", "refusal", "recitation", "blocklist", "prohibited_content",
        "spii", "language", "guardrail_intervened", "error_toxic",
    ]
)  # fmt: skip
CUT_OFF = TOO_LONG | FILTERED | frozenset(
    [
        "abort", "aborted", "cancelled", "canceled", "error", "failed", "timeout", "time_limit",
        "insufficient_system_resource", "malformed_function_call", "unexpected_tool_call", "too_many_tool_calls",
        "other", "load", "unload",
    ]
)  # fmt: skip
# The word for an answer that has calls, or had some that its server could not read.
CALLING = frozenset(
    ["tool_calls", "tool_use", "function_call", "tool_call", "malformed_function_call", "unexpected_tool_call"]
)
# Of a block that arrives in pieces, the fields whose texts belong together.
JOINED_FIELDS = ("text", "thinking", "summary", "data", "reasoning")
# Characters of broken arguments that an error quotes.
SHOWN = 200
# Calls of one answer, at most.
MOST_CALLS = 1_000
# Characters of a call's id that fit into its row; a longer one is kept for its server.
LONGEST_ID = 128
# Characters of what a server wants back.
MOST_KEPT = 500_000


@dataclass(slots=True)
class CallPiece:
    """A tool call, or a piece of one. `arguments` is JSON as text; `fields` is what its server wants back with it."""

    index: int | None = None
    id: str = ""
    name: str = ""
    arguments: str = ""
    fields: dict[str, JSON] = field(default_factory=dict)

    @classmethod
    def of(
        cls, index: JSON, id: JSON, name: JSON, arguments: JSON, fields: dict[str, JSON] | None = None
    ) -> "CallPiece":
        """A piece from what a server sent; a field of an unexpected type counts as absent."""
        if not isinstance(index, int) or isinstance(index, bool):
            index = None
        if arguments is None:
            arguments = ""
        if not isinstance(arguments, str):
            # Some servers send the object itself.
            arguments = json.dumps(arguments)
        return cls(index, read_word(id), read_word(name), arguments, fields or {})


def read_word(value: JSON) -> str:
    if isinstance(value, str):
        return value
    # Some servers count their calls, and send the number as an id.
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return ""


@dataclass(slots=True, eq=False)
class PartialCall:
    """A call as far as it has arrived."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    fields: dict[str, JSON] = field(default_factory=dict)
    # More of it may have been on the way.
    is_in_pieces: bool = False

    def add(self, piece: CallPiece) -> None:
        self.fields |= piece.fields
        self.id = self.id or piece.id
        # A name that each piece repeats is one name.
        if piece.name != self.name:
            self.name += piece.name
        if piece.arguments:
            self.arguments.append(piece.arguments)

    def is_complete(self) -> bool:
        text = "".join(self.arguments)
        return is_object(text)


class AnswerBuilder:
    """Collects the parts of one answer. `end` says that the server called it finished; `build` raises AttemptFailed
    if it never did. `hear` gets the text as it arrives, `think` what the model thinks. `is_open`: the template of this
    model opens its block of thoughts (thinking.py); `was_open` says so after `build`. `without_parameters`: tools whose
    calls can have no arguments.
    """

    def __init__(
        self,
        hear: Callable[[str], Any] | None = None,
        think: Callable[[str], Any] | None = None,
        *,
        splits_thinking: bool = True,
        is_open: bool = False,
        without_parameters: Collection[str] = (),
    ) -> None:
        self.has_ended = False
        self.finish = ""
        self.input_tokens = 0
        self.output_tokens = 0
        self.extra: dict[str, JSON] = {}
        # What the server wants back with this answer.
        self.fields: dict[str, JSON] = {}
        self._hear = hear
        self._think = think
        self._without_parameters = without_parameters
        self._heard: list[str] = []
        self._text = ThinkingSplitter(is_open=is_open) if splits_thinking else Unsplit()
        self._has_text = False
        self._reasoning: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[PartialCall] = []
        self._by_index: dict[int, PartialCall] = {}
        self._by_id: dict[str, PartialCall] = {}

    @property
    def has_any(self) -> bool:
        """Whether the server has sent anything of an answer."""
        return bool(self._has_text or self._calls or self._reasoning or self._refusals)

    @property
    def was_open(self) -> bool:
        return self._text.was_open

    def add_text(self, text: str) -> None:
        if not text:
            return
        # It goes on, whatever was said before.
        self.has_ended = False
        self._has_text = True
        words = self._text.add(text)
        self._say(words)
        if self._think is None:
            return
        thoughts = self._text.take_thoughts()
        if thoughts:
            self._think(thoughts)

    def _say(self, words: str) -> None:
        if words and self._hear:
            self._heard.append(words)
            self._hear(words)

    def add_reasoning(self, text: str) -> None:
        """What the model thinks, where its server sends it apart from the answer."""
        if not text:
            return
        self._reasoning.append(text)
        self.has_ended = False
        if self._think:
            self._think(text)

    def add_refusal(self, text: str) -> None:
        """The model declined; its reason takes the place of an answer, and none of its calls is made."""
        if text:
            self._refusals.append(text)
            self.add_text(text)

    def add_field(self, name: str, value: JSON) -> None:
        """A field that the server wants back. Texts arrive in pieces, lists in entries."""
        earlier = self.fields.get(name)
        if isinstance(earlier, str) and isinstance(value, str):
            self.fields[name] = earlier + value
        elif isinstance(earlier, list) and isinstance(value, list):
            add_entries(earlier, value)
        elif isinstance(value, list):
            self.fields[name] = add_entries([], value)
        else:
            self.fields[name] = value

    def add_call(self, piece: CallPiece) -> None:
        """A call that arrived as a whole."""
        call = self._begin_call(piece)
        call.add(piece)

    def add_whole_call(self, piece: CallPiece) -> None:
        """A call as a whole, of which pieces may have come before."""
        if piece.index is None:
            call = self._by_id.get(piece.id)
        else:
            call = self._by_index.get(piece.index)
        if call is None:
            self.add_call(piece)
            return
        # The whole takes the place of the pieces.
        if piece.arguments:
            call.arguments = []
        call.is_in_pieces = False
        if piece.name:
            call.name = ""
        call.add(piece)
        self.has_ended = False

    def add_pieces(self, pieces: Iterable[CallPiece]) -> None:
        """The pieces of calls that arrived together. Each is added to its call, or begins a new one."""
        touched: list[PartialCall] = []
        for piece in pieces:
            call = self._find_call(piece, touched) or self._begin_call(piece)
            call.is_in_pieces = True
            call.add(piece)
            touched.append(call)
            self.has_ended = False

    def _begin_call(self, piece: CallPiece) -> PartialCall:
        call = PartialCall()
        self._calls.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        if piece.id:
            self._by_id[piece.id] = call
        self.has_ended = False
        return call

    def _find_call(self, piece: CallPiece, touched: list[PartialCall]) -> PartialCall | None:
        """The call that this piece continues, or None. `touched` got a piece in the same event."""
        if piece.index in self._by_index:
            call = self._by_index[piece.index]
            return call if continues_place(call, piece) else None
        if piece.index is not None and piece.name:
            return None
        if piece.id:
            return self._find_by_id(piece)
        # Neither place nor id: it belongs to the last call, unless both came together or that one is complete.
        last = self._calls[-1] if self._calls else None
        if last is None or (piece.name and begins_call(last, piece, is_beside=last in touched)):
            return None
        return last

    def _find_by_id(self, piece: CallPiece) -> PartialCall | None:
        call = self._by_id.get(piece.id)
        # Some servers use the name of the tool as the id of each of its calls.
        if call is not None and piece.name and piece.arguments and call.is_complete():
            return None
        return call

    def end(self, reason: JSON) -> None:
        """The server said that the answer is finished, and why."""
        self.has_ended = True
        word = read_reason(reason)
        if word and self.finish not in CUT_OFF:
            self.finish = word

    def build(self) -> Answer:
        if not self.has_ended:
            raise AttemptFailed("cut_stream", "The model's answer was cut off.", is_retryable=True)
        if not (self.finish or self.has_any):
            raise AttemptFailed("cut_stream", "The model's answer was empty.", is_retryable=True)
        # Some servers send the pieces of a call that they could not read: without a name, and without arguments.
        self._calls = [call for call in self._calls if call.name or call.arguments]
        if self._is_broken():
            message = f"The model server could not read what its model called (“{self.finish}”)."
            raise AttemptFailed("bad_answer", message, is_retryable=True)
        if len(self._calls) > MOST_CALLS:
            message = f"The model asked for {len(self._calls)} calls at once; at most {MOST_CALLS} are possible."
            raise AttemptFailed("too_many_calls", message)
        if self._refusals and self.finish not in CUT_OFF:
            self.finish = "refusal"
        text, thoughts = self._text.finish()
        heard = "".join(self._heard)
        if text.startswith(heard):
            # The rest was held, because it might have been a thought.
            self._say(text[len(heard) :])
        calls = tuple(self._read_calls())
        reasoning = "".join(self._reasoning) or thoughts
        return Answer(
            text=text,
            calls=calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            finish=self.finish,
            extra=self.extra,
            reasoning=reasoning,
            kept=self._read_kept(),
        )

    def _is_broken(self) -> bool:
        """Whether the answer is said to be calls, or a fault of them, and has neither a call nor a text."""
        if self._has_text or self._calls:
            return False
        return self.finish in CALLING

    def _read_kept(self) -> dict[str, JSON]:
        """What has to go back with this answer; nothing if it is too large to be stored with it."""
        kept: dict[str, JSON] = {}
        if self.fields:
            kept["fields"] = self.fields
        calls = [collect_kept_fields(call) for call in self._calls]
        if any(calls):
            kept["calls"] = calls
        if not kept:
            return kept
        size = len(json.dumps(kept, default=str))
        if size > MOST_KEPT:
            return {}
        return kept

    def _read_calls(self) -> Iterable[ModelToolCall]:
        used: set[str] = set()
        for number, call in enumerate(self._calls):
            id = call.id[:LONGEST_ID] or f"call_{number}"
            if id in used:
                beginning = id[: LONGEST_ID - 8]
                id = f"{beginning}_{number}"
            used.add(id)
            arguments = "".join(call.arguments)
            may_be_empty = self._may_be_empty(call)
            yield read_call(id, call.name, arguments, self.finish, may_be_empty=may_be_empty)

    def _may_be_empty(self, call: PartialCall) -> bool:
        """Whether no arguments mean `{}`. LiteLLM's proxy says `stop` of every stream that just ends, also behind the
        name of a call: unless the server speaks of calls, its arguments may be missing.
        """
        if self.finish in CALLING:
            return True
        is_whole = not call.is_in_pieces or call.name in self._without_parameters
        return is_whole and self.finish in COMPLETE


def collect_kept_fields(call: PartialCall) -> dict[str, JSON]:
    """What the server wants back with this call, and its id where a row cannot hold it."""
    kept: dict[str, JSON] = {}
    if call.fields:
        kept["fields"] = call.fields
    if len(call.id) > LONGEST_ID:
        kept["id"] = call.id
    return kept


def add_entries(entries: list[JSON], pieces: list[JSON]) -> list[JSON]:
    """Add the pieces of a list of blocks: one for the same block (by its index and type) continues it."""
    for piece in pieces:
        if not isinstance(piece, dict):
            entries.append(piece)
            continue
        last = entries[-1] if entries else None
        if isinstance(last, dict) and continues_entry(last, piece):
            continue_entry(last, piece)
        else:
            # A copy, because later pieces are added to it.
            entries.append(dict(piece))
    return entries


def continue_entry(last: dict[str, JSON], piece: dict[str, JSON]) -> None:
    """Texts are joined; of other fields the later value counts, unless it is null."""
    for name, value in piece.items():
        earlier = last.get(name)
        are_texts = isinstance(value, str) and isinstance(earlier, str)
        if are_texts and name in JOINED_FIELDS:
            last[name] = earlier + value
        elif value is None:
            last[name] = earlier
        else:
            last[name] = value


def continues_entry(last: dict[str, JSON], piece: dict[str, JSON]) -> bool:
    if last.get("type") != piece.get("type"):
        return False
    if "index" in piece or "index" in last:
        return last.get("index") == piece.get("index")
    return not last.get("signature")


def continues_place(call: PartialCall, piece: CallPiece) -> bool:
    """Whether a piece for the place of this call belongs to it: some servers give all calls the same place."""
    if piece.id and call.id and piece.id != call.id:
        # Some make up an id for each piece, but name the tool only once.
        return not piece.name
    names_other_tool = piece.name and call.name and piece.name != call.name
    return not (names_other_tool and call.arguments)


def begins_call(last: PartialCall, piece: CallPiece, *, is_beside: bool) -> bool:
    """Whether a named piece without place and id begins a call of its own after the last one."""
    if is_beside or piece.name != last.name:
        return True
    return bool(piece.arguments) and last.is_complete()


def read_reason(reason: JSON) -> str:
    """A finish reason in lower case; enumerations are named like `FinishReason.MAX_TOKENS`."""
    if not isinstance(reason, str):
        return ""
    _, _, word = reason.strip().rpartition(".")
    word = word.lower()
    if word in ("null", "none") or word.endswith("unspecified"):
        return ""
    return word


def name_cut(finish: str) -> str:
    """In OpenAI's words why an answer ended too early: `length`, `content_filter`, or "" if it did not. OpenAI has no
    word for a fault of the server; that the answer is not all of it is what `length` says.
    """
    if finish in FILTERED:
        return "content_filter"
    if finish in CUT_OFF:
        return "length"
    return ""


def read_call(id: str, name: str, arguments: JSON, finish: str, *, may_be_empty: bool) -> ModelToolCall:
    """A call of an answer that ended with this reason. `arguments` is an object, or JSON as text; none are `{}` if they
    `may_be_empty`.
    """
    if finish in CUT_OFF:
        return ModelToolCall(id, name, {}, explain_cut(finish), is_cut_off=True)
    try:
        return ModelToolCall(id, name, read_arguments(arguments, may_be_empty=may_be_empty))
    except ValueError as error:
        return ModelToolCall(id, name, {}, str(error))


def read_arguments(arguments: JSON, *, may_be_empty: bool) -> dict[str, JSON]:
    """Raises ValueError with a reason for the model."""
    if arguments is None or (isinstance(arguments, str) and arguments.strip() in ("", "null")):
        if not may_be_empty:
            raise ValueError("The call has no arguments, and the answer may have been cut off before them.")
        return {}
    if isinstance(arguments, str):
        arguments = parse_arguments(arguments)
    elif fault := parsers.find_fault(arguments):
        raise ValueError(f"The arguments are not valid JSON: {fault}.")
    if not isinstance(arguments, dict):
        raise ValueError("The arguments must be a JSON object.")
    return arguments


def parse_arguments(text: str) -> JSON:
    try:
        return parsers.parse_json_body(text.encode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise ValueError(f"The arguments are not valid JSON: {error}. They begin with: {text[:SHOWN]}")


def is_object(text: str) -> bool:
    """Whether the text is a whole JSON object."""
    if not text.endswith("}"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def explain_cut(finish: str) -> str:
    return (
        f"The answer was cut off (finish reason “{finish}”), so none of its calls was made. "
        "Call the tool again: with shorter arguments, or in several steps."
    )
