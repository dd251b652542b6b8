"""One run of one agent: model → tool calls → model …, until there is a reply.

The rows are the state. A turn is written before its calls are made; after a wait, a crash or an
approval the run reads its rows and continues. Nothing is only kept in memory.
"""

import json
import time
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import transaction

from agents import schema
from agents.models import AgentSpec
from agents.tools import ToolSpec
from plumbing import clock
from plumbing.statements import insert_rows
from plumbing.threads import release_connection
from registry.agents import ModelReply, ModelToolCall
from registry.exceptions import ModelCancelled, ModelFailed
from registry.llm.answer_builder import TOO_LONG, name_cut
from registry.llm.errors import OVERFLOW
from runs.calls import call_records, hooks, model_messages, offers, resumption
from runs.calls.executor import ToolCallExecutor
from runs.calls.offers import COMPLETE
from runs.events import record as events
from runs.exceptions import LeaseLost, RunDone, RunEnded, RunWaits
from runs.intake import caller_tools, checks
from runs.models import Message, ModelCall, Run, Session, ToolCallRecord
from runs.queue import budgets, endings
from runs.queue.leases import Lease
from runs.rules import incomplete_calls, stuck
from runs.rules.answers import Step
from runs.rules.replies import parse_reply_json
from runs.rules.verdicts import DENY, REPLACE

from . import agent, facts, prompt

Status = Run.Status
CUT = {"length": "the answer was cut off", "content_filter": "the model declined to answer"}
EMPTY = {
    "": "the model returned an empty answer",
    "length": "the model returned no answer before it reached its limit; set a higher max_tokens",
    "content_filter": "the model declined to answer, and gave no reason",
}
DENIED = "message_denied"
CHECKED = "message_in"  # in the run's policy: its message was checked
OUT_OF_STEPS = "You have no steps left. Answer now with what you have, without tools."


class Conversation:
    """One run of one agent, from its rows to its reply."""

    def __init__(self, run: Run, lease: Lease) -> None:
        self.run = run
        self.lease = lease
        self.inherit_mark()
        was_routed = run.agent is None
        self.live = agent.load_run_agent(run, lease)
        self.spec = self.live.spec
        self.caller_tools = caller_tools.specs(run.policy)
        self.hooks = hooks.load_hooks(run, agent=self.spec.name, is_cancelled=lease.is_cancelled, is_new=was_routed)
        tools = self.all_tools()
        self.executor = ToolCallExecutor(run, lease, tools, agent=self.spec.name, hooked=self.hooks)
        self.budgets = budgets.Watch(run)
        self.records: list[ToolCallRecord] = []  # this run's calls so far, according to their rows
        self.shortened = 0  # how often, because the conversation was too long for the model
        self.max_turns = run.policy.get("max_turns") or self.spec.max_steps
        self.output_schema = run.policy.get("output_schema") or self.spec.output_schema
        self.asked = run.options.get("asked", {})
        self.must_call = self.asked.get("tool_choice", "") if self.caller_tools else ""

    def inherit_mark(self) -> None:
        """Untrusted content may have entered the session after this message was sent."""
        session = self.run.session
        if session is not None and session.has_untrusted and not self.run.has_untrusted:
            self.run.has_untrusted = True
            self.lease.write(has_untrusted=True)

    def all_tools(self) -> dict[str, ToolSpec]:
        """The agent's tools and those of the caller. The names were checked if the agent was known."""
        common_names = self.caller_tools.keys() & self.live.tools.keys()
        if common_names:
            raise RunEnded(Status.FAILED, "name_taken", f"the agent has a tool “{min(common_names)}” of its own")
        return {**self.live.tools, **self.caller_tools}

    def hold(self) -> None:
        """Take turns until there is a reply."""
        self.require_shared()
        self.check_message()
        if self.is_sent_whole():
            spec = prompt.all_context(self.spec)
        else:
            spec = self.spec
            prompt.keep_up(self.run, self.live, self.lease)
        self.messages = self.open_messages(spec)
        # After a crash or a wait, the rows say how far it came.
        if self.run.turns or self.run.attempt > 1:
            self.catch_up()
            facts.require_first_call(self.run)
        while True:
            check_alive(self.run, self.lease)
            reply, requested = self.turn()
            reply = self.check_reply(reply)
            if requested:
                self.make_calls(reply, requested)
            elif self.conclude(reply):
                return

    def is_sent_whole(self) -> bool:
        """Whether the caller keeps the conversation, and sends all of it with each message."""
        session = self.run.session
        return session is not None and session.is_sent_whole

    def open_messages(self, spec: AgentSpec) -> list[dict[str, Any]]:
        """What the model is shown before the first turn of this run."""
        about_facts = facts.opening(self.run)
        if about_facts:
            return about_facts
        memories = prompt.render_memories(self.run, self.lease)
        return model_messages.opening(self.run, spec, memories)

    def require_shared(self) -> None:
        """Raises RunEnded."""
        checks.require_shared(self.run, self.run.agent, self.live.provider)

    def catch_up(self) -> None:
        """Finish the last turn's open calls, then show the model all turns so far."""
        answers = model_messages.answers(self.run)
        self.run.turns = len(answers)
        self.records = model_messages.list_model_calls(self.run)
        last_calls = [record for record in self.records if record.turn == self.run.turns]
        is_any_open = any(not record.outcome for record in last_calls)
        if is_any_open:
            self.executor.read_grants()
            resumption.resume_calls(self.executor, last_calls)
        self.stop_or_wait(last_calls)
        self.messages += model_messages.turns(self.run, answers)
        if last_calls:
            self.look_for_circles()
        elif answers:
            self.recover_reply(answers[-1])

    def recover_reply(self, answer: ModelCall) -> None:
        """The model had answered when the worker died: the row contains the reply."""
        response = answer.response
        if not response or response.get("note"):
            return
        text = response.get("text", "")
        has_ended = self.end_with(text, finish=response.get("finish", ""))
        if has_ended:
            raise RunDone

    def turn(self) -> tuple[ModelReply, tuple[ModelToolCall, ...]]:
        """One model call and its tool calls. The last turn has no tools but those of a caller who demands a call."""
        self.require_shared()
        self.executor.read_grants()
        if self.executor.unshared and self.run.turns == 0:
            self.record_missing_tools()
        is_last = self.run.turns >= self.max_turns
        is_call_demanded = self.must_call and self.run.turns == self.max_turns
        has_calls = not is_last or is_call_demanded
        if not has_calls:
            self.messages.append({"role": "user", "content": OUT_OF_STEPS})
        question = self.build_question(is_last=is_last, has_calls=bool(has_calls))
        longest = self.budgets.hold(lambda: self.live.bid(self.messages, **question))
        try:
            reply = self.ask(**question, **self.wishes(), max_tokens=longest)
        except Exception:
            self.budgets.release()
            raise
        if not has_calls:
            return reply, ()
        return reply, reply.tool_calls

    def record_missing_tools(self) -> None:
        """The agent was shared without them: whoever reads the run sees why they were not used."""
        names = [name for name, tool in self.executor.tools.items() if tool.id in self.executor.unshared]
        events.record_event(self.run, "tools.missing", {"tools": sorted(names)})

    def build_question(self, *, is_last: bool, has_calls: bool) -> dict[str, Any]:
        """Which tools the model may call, and the schema of its answer."""
        offer = offers.Offer([])
        if not is_last:
            offer = offers.build_offer(self.executor, self.records)
        extra_tools: list[ToolSpec] = []
        if has_calls:
            if self.run.policy.get("step") and offer.names:
                extra_tools.append(COMPLETE)
            extra_tools += self.caller_tools.values()
            extra_tools += offer.more
        return {
            "tool_names": offer.names,
            "extra_tools": tuple(extra_tools),
            "output_schema": self.output_schema,
        }

    def wishes(self) -> dict[str, Any]:
        """What the caller asked of each answer of the model. A demanded call is demanded until it is made: then a
        request of the caller ends, and the next one may demand another.
        """
        return {
            "must_call": self.must_call,
            "is_one_call": self.asked.get("parallel_tool_calls") is False,
            "stop": self.asked.get("stop", ()),
        }

    def ask(self, **question: Any) -> ModelReply:
        """The model's answer; its deltas are sent to watchers. No database connection is held
        meanwhile.
        """
        turn = self.run.turns + 1
        while prompt.is_too_long(self.messages, self.live.window) and self.shorten(turn):
            pass  # a request that the model cannot read is not worth its time
        # What a hook may replace is not sent before the hook has seen all of it.
        is_streamed = not self.hooks.at("message_out") and events.has_watchers(self.run.pk)
        deltas = events.Deltas(self.run.pk, turn) if is_streamed else None
        release_connection()
        began = time.monotonic()
        try:
            return self.live.reply(
                self.messages,
                **question,
                on_delta=deltas.write if deltas else None,
                on_thought=deltas.think if deltas else None,
                is_cancelled=self.lease.is_cancelled,
                deadline=self.run.deadline,
            )
        except ModelCancelled:
            sent = (deltas.text if deltas else "") or None
            check_alive(self.run, self.lease, reply=sent)
            raise RunEnded(Status.EXPIRED, "deadline", "the run's deadline passed while the model answered", sent)
        except ModelFailed as error:
            if error.code == OVERFLOW and self.shorten(turn):
                return self.ask(**question)
            seconds = time.monotonic() - began
            self.write_failure(error, turn, wall_ms=seconds * 1000)
            status = Status.EXPIRED if error.code == "deadline" else Status.FAILED
            raise RunEnded(status, error.code, str(error))
        finally:
            if deltas:
                deltas.flush()

    def shorten(self, turn: int) -> bool:
        """Show the model less of the conversation, which was too long for it. False if nothing can be left out."""
        if self.shortened >= prompt.MAX_SHORTENINGS:
            return False
        size_before = prompt.measure_messages(self.messages)
        number_before = len(self.messages)
        size = size_before
        # One step may leave nothing out, such as when there are no earlier messages: then the next is tried.
        while self.shortened < prompt.MAX_SHORTENINGS and size >= size_before:
            self.shortened += 1
            self.messages = self.shorter_messages()
            size = prompt.measure_messages(self.messages)
        if size >= size_before:
            return False
        left_out = max(0, number_before - len(self.messages))
        entry = ("context.shortened", {"turn": turn, "left_out": left_out, "characters": size_before - size})
        conditions = self.lease.conditions()
        if events.record_events_and_change(self.run, [entry], where=conditions) is None:
            raise LeaseLost(str(self.run.pk))
        return True

    def shorter_messages(self) -> list[dict[str, Any]]:
        steps = self.shortened
        if self.is_sent_whole():
            steps -= 1  # its first step is the agent's own rule, which was not used so far
        spec = prompt.less_context(self.spec, steps)
        prompt.keep_up(self.run, self.live.changed(spec), self.lease)
        messages = self.open_messages(spec)
        answers = model_messages.answers(self.run)
        messages += model_messages.turns(self.run, answers)
        if self.messages[-1].get("content") == OUT_OF_STEPS:
            messages.append(self.messages[-1])
        return prompt.cut_results(messages, self.shortened)

    def write_answer(self, reply: ModelReply, calls: list[dict[str, Any]]) -> events.Entry:
        """The model's answer as a row; the caller records its event in the same transaction."""
        run = self.run
        cost = self.compute_cost(reply)
        run.turns += 1
        run.crashes = 0  # a run that completes a turn is not the cause of dying workers
        run.input_tokens += reply.input_tokens
        run.output_tokens += reply.output_tokens
        run.cost += cost
        figures = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens, "wall_ms": reply.wall_ms}
        call = ModelCall(
            run=run,
            turn=run.turns,
            provider=self.live.provider_name,
            model_name=reply.model_name,
            started_at=clock.near() - timedelta(milliseconds=reply.wall_ms),
            first_token_ms=reply.first_token_ms,
            cost=cost,
            attempts=reply.attempts,
            request=reply.request if settings.KEEP_RAW else None,
            response=build_response_row(reply, calls),
            **figures,
        )
        insert_rows(call)
        if call.request:
            events.count_raw(run, call.request)
        data = {"turn": run.turns, "model": reply.model_name, "text": reply.text, "tool_calls": calls}
        data["finish"] = reply.finish
        return "model.finished", {**data, **figures, "cost": str(cost)}

    def compute_cost(self, reply: ModelReply) -> Decimal:
        return self.live.cost(reply.model_name, reply.input_tokens, reply.output_tokens)

    def spent(self) -> dict[str, Any]:
        """What a turn changes in the run's row."""
        run = self.run
        return {
            "crashes": run.crashes,
            "turns": run.turns,
            "input_tokens": run.input_tokens,
            "output_tokens": run.output_tokens,
            "cost": run.cost,
        }

    def settle(self, reply: ModelReply) -> None:
        """After the run's row is written: budgets are locked after runs."""
        tokens = reply.input_tokens + reply.output_tokens
        self.budgets.settle(tokens, self.compute_cost(reply))

    def write(self, entries: list[events.Entry]) -> None:
        """Write events and usage, as long as the run is ours."""
        conditions = self.lease.conditions()
        if events.record_events_and_change(self.run, entries, where=conditions, values=self.spent()) is None:
            raise LeaseLost(str(self.run.pk))

    @transaction.atomic
    def write_failure(self, error: ModelFailed, turn: int, wall_ms: float) -> None:
        reason = {"code": error.code, "message": str(error)}
        entry = ("model.failed", {"turn": turn, **reason})
        conditions = self.lease.conditions()
        if events.record_events_and_change(self.run, [entry], where=conditions) is None:
            raise LeaseLost(str(self.run.pk))
        started_at = clock.near() - timedelta(milliseconds=wall_ms)
        ModelCall.objects.create(
            run=self.run,
            turn=turn,
            provider=self.live.provider_name,
            model_name=self.spec.model_name,
            started_at=started_at,
            wall_ms=wall_ms,
            attempts=error.attempts,
            error=reason,
        )

    def make_calls(self, reply: ModelReply, requested: tuple[ModelToolCall, ...]) -> None:
        """Write the turn in one transaction and make its calls; then wait, end, or show the model
        the results.
        """
        checked = hooks.check_calls_by_hooks(self.executor, requested)
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in checked]
        with transaction.atomic():
            answered = self.write_answer(reply, calls)
            records, entries = self.executor.record(checked, self.run.turns)
            self.write([answered, *entries])
            self.settle(reply)
        self.records += records
        self.executor.perform(records)
        self.stop_or_wait(records)
        self.messages += model_messages.turn_messages(reply.text, records, reply.kept)
        self.look_for_circles()

    def stop_or_wait(self, records: list[ToolCallRecord]) -> None:
        check_alive(self.run, self.lease)
        waiting = [record for record in records if not record.outcome and record.waiting_for]
        if waiting:
            raise RunWaits(waiting[0].waiting_for, call_records.earliest(waiting))
        for record in records:
            is_completion = record.name == COMPLETE.name and record.kind == COMPLETE.kind
            if is_completion and record.outcome == "ok":
                self.complete(record.result)

    def complete(self, result: Any) -> None:
        """The model ended its step with a result of its own."""
        problems = schema.validate(self.output_schema, result) if self.output_schema else []
        if problems:
            raise RunEnded(
                Status.FAILED, "output_invalid", f"the result does not match the schema: {problems[0]['message']}"
            )
        text = result
        if not isinstance(result, str):
            text = json.dumps(result, ensure_ascii=False)
        status, error = self.verdict()
        endings.finish_run(self.run, status, lease=self.lease, reply=text, output=result, error=error)
        raise RunDone

    def look_for_circles(self) -> None:
        """A run that repeats itself is warned once, then stopped."""
        run = self.run
        if run.turns < stuck.FIRST_CHECK:
            return
        warned = run.policy.get("warned")
        if warned and warned["turn"] == run.turns:
            return  # the warning of this turn stands, also if the run then lost its worker
        steps = [Step.of(record) for record in self.records]
        verdict = stuck.check_progress(steps, was_warned=bool(warned))
        if verdict is None:
            return
        if verdict.stop:
            raise RunEnded(Status.FAILED, "stuck", verdict.reason)
        warning = {"turn": run.turns, "reason": verdict.reason}
        run.policy = {**run.policy, "warned": warning}
        self.lease.write(policy=run.policy)
        events.record_event(run, "stuck.warned", {"reason": verdict.reason})
        self.messages.append({"role": "user", "content": verdict.reason})

    # -- hooks on a message's way to the agent and on its way out -----------------------------------------------------

    def check_message(self) -> None:
        """Before the first model call. A refused message ends the run; it and a replaced one are not kept.

        Raises RunEnded(message_denied), LeaseLost.
        """
        run = self.run
        if not self.hooks.at("message_in") or run.policy.get(CHECKED):
            return
        for message in model_messages.own_messages(run):
            part_types = [part.get("type") for part in message.content]
            outcome = self.hooks.ask(
                "message_in",
                message.text,
                name="text",
                untrusted=message.untrusted,
                parts=part_types,
                input=run.input,
            )
            if outcome.kind == DENY:
                self.rewrite_message(message, f"[refused: {outcome.reason}]", outcome.events, keeps_parts=False)
                raise RunEnded(Status.FAILED, DENIED, outcome.reason)
            if outcome.kind == REPLACE:
                self.rewrite_message(message, outcome.value, outcome.events)
        policy = {**run.policy, CHECKED: True}
        self.lease.write(policy=policy)
        run.policy = policy

    @transaction.atomic
    def rewrite_message(
        self, message: Message, text: str, entries: list[events.Entry], *, keeps_parts: bool = True
    ) -> None:
        """Replace the text of a message, and the title that was made of it, with its event."""
        conditions = self.lease.conditions()
        if events.record_events_and_change(self.run, entries, where=conditions) is None:
            raise LeaseLost(str(self.run.pk))
        parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if keeps_parts:
            parts += [part for part in message.content if part.get("type") != "text"]
        Message.objects.filter(pk=message.pk).update(content=parts)
        if message.seq == 1:
            title = text[:80].strip()
            Session.objects.filter(pk=message.session_id, parent=None).update(title=title)

    def check_reply(self, reply: ModelReply) -> ModelReply:
        """The model's text as the hooks leave it. The original is not stored. Raises RunEnded(message_denied)."""
        if not self.hooks.at("message_out") or not reply.text.strip():
            return reply
        has_calls = bool(reply.tool_calls)
        outcome = self.hooks.ask(
            "message_out", reply.text, name="text", untrusted=self.run.has_untrusted, calls=has_calls
        )
        if outcome.kind == DENY:
            self.end_denied(reply, outcome.events)
            raise RunEnded(Status.FAILED, DENIED, outcome.reason)
        if outcome.kind != REPLACE:
            return reply
        self.executor.tell(*outcome.events)
        return replace(reply, text=outcome.value, response={}, reasoning="", kept={})

    @transaction.atomic
    def end_denied(self, reply: ModelReply, entries: list[events.Entry]) -> None:
        """The model call counts, without its text."""
        emptied = replace(reply, text="", response={}, reasoning="", kept={})
        answered = self.write_answer(emptied, [])
        self.write([answered, *entries])
        self.settle(reply)

    # -- the end --------------------------------------------------------------------------------------------------

    @transaction.atomic
    def conclude(self, reply: ModelReply) -> bool:
        """A reply without calls ends the run once it matches the output schema; one repair turn is
        allowed.
        """
        entries = [self.write_answer(reply, [])]
        has_ended = self.end_with(reply.text, entries, finish=reply.finish)
        self.settle(reply)
        return has_ended

    def end_with(self, text: str, entries: list[events.Entry] | None = None, *, finish: str = "") -> bool:
        """End the run with this text, or ask once for a repair (False). `finish`: why the answer ended."""
        cut = name_cut(finish)
        is_empty_by_cut = cut and not text.strip()
        if self.output_schema is None or is_empty_by_cut:
            return self.finish(text, entries=entries, finish=finish)
        output, problem = parse_reply_json(text, self.output_schema)
        if problem is None:
            return self.finish(text, entries=entries, output=output, finish=finish)
        if cut:  # a second answer would end in the same way
            problem = f"{problem} ({CUT[cut]})"
        if not cut and not self.was_repaired():
            self.ask_for_repair(problem, entries or [])
            return False
        error = {"code": "output_invalid", "message": f"{problem}; the reply starts with: {text[:300]}"}
        return endings.finish_run(
            self.run, Status.FAILED, lease=self.lease, reply=text, cut=cut, error=error, entries=entries
        )

    def was_repaired(self) -> bool:
        noted = ModelCall.objects.filter(run=self.run, response__note__isnull=False)
        return noted.exists()

    def ask_for_repair(self, problem: str, entries: list[events.Entry]) -> None:
        note = f"Your answer is not valid: {problem}. Answer again with JSON only and nothing around it."
        answers = ModelCall.objects.filter(run=self.run, turn=self.run.turns, error__isnull=True)
        call = answers.latest("id")
        response = call.response or {}
        call.response = {**response, "note": note}
        call.save(update_fields=["response"])
        self.write(entries)
        self.messages.append({"role": "assistant", "content": response.get("text", "")})
        self.messages.append({"role": "user", "content": note})

    def finish(
        self, text: str, *, entries: list[events.Entry] | None = None, output: Any = None, finish: str = ""
    ) -> bool:
        """As the verdict says; failed if the model returned nothing."""
        status, error = self.verdict()
        if not text.strip():
            status = Status.FAILED
            error = error or {"code": "empty_reply", "message": explain_empty(finish)}
        calls = model_messages.remembered_calls(self.records)
        return endings.finish_run(
            self.run,
            status,
            lease=self.lease,
            reply=text or None,
            cut=name_cut(finish),
            output=output,
            error=error,
            tool_calls=calls,
            entries=entries,
        )

    def verdict(self) -> tuple[str, dict[str, str] | None]:
        """Partial if the steps ran out. The reply of a child run is read by a program, so calls that
        were not carried out count: partial, or failed if no call was.
        """
        if self.run.turns > self.max_turns:
            return Status.PARTIAL, {"code": "step_limit", "message": f"the limit of {self.max_turns} steps was reached"}
        if self.run.parent_id is None:
            return Status.SUCCEEDED, None
        calls = [incomplete_calls.Call.of(record) for record in self.records]
        error = incomplete_calls.shortfall(calls)
        if error is None:
            return Status.SUCCEEDED, None
        for record in self.records:
            if record.outcome == "ok" and record.kind != COMPLETE.kind:
                return Status.PARTIAL, error
        return Status.FAILED, error


def explain_empty(finish: str) -> str:
    """Why the model's answer has no text."""
    cut = name_cut(finish)
    if cut == "length" and finish not in TOO_LONG:
        return f"the model's answer broke off before it had a text (“{finish}”)"
    return EMPTY[cut]


def build_response_row(reply: ModelReply, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer as its row keeps it: what it said, what the model thought, and what its server wants back."""
    raw = reply.response if settings.KEEP_RAW else None
    response: dict[str, Any] = {"text": reply.text, "tool_calls": calls, "raw": raw}
    if reply.finish:
        response["finish"] = reply.finish
    if reply.reasoning:
        response["reasoning"] = reply.reasoning
    if reply.kept:
        response["kept"] = reply.kept
    return response


def check_alive(run: Run, lease: Lease, *, reply: str | None = None) -> None:
    """Checked between any two actions: cancelled, lost or past the deadline. `reply`: what the person has read of an
    answer that is not finished; it stays in the conversation.
    """
    if lease.lost.is_set():
        raise LeaseLost(str(run.pk))
    if lease.is_cancelled():
        run.refresh_from_db(fields=["cancel_reason"])
        raise RunEnded(Status.CANCELLED, "cancelled", endings.cancelled_error(run)["message"], reply)
    if run.deadline and clock.near() >= run.deadline:
        raise RunEnded(Status.EXPIRED, "deadline", "the run's deadline passed", reply)
