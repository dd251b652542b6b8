"""One run of one agent: model → tool calls → model …, until there is a reply.

The rows are the state. A turn is written before its calls are made; after a wait, a crash or an
approval the run reads its rows and continues. Nothing is only kept in memory.
"""

import json
import time
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from agents import schema
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
from runs.models import ModelCall, Run, ToolCallRecord
from runs.queue import budgets, endings
from runs.queue.leases import Lease
from runs.rules import incomplete_calls, stuck
from runs.rules.answers import Step
from runs.rules.replies import parse_reply_json

from . import agent, facts, guards, memory, shortening, summary

Status = Run.Status
CUT = {"length": "the answer was cut off", "content_filter": "the model declined to answer"}
EMPTY = {
    "": "the model returned an empty answer",
    "length": "the model returned no answer before it reached its limit; set a higher max_tokens",
    "content_filter": "the model declined to answer, and gave no reason",
}
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
        self.executor = ToolCallExecutor(run, lease, self.all_tools(), agent=self.spec.name, hooked=self.hooks)
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
        if names := self.caller_tools.keys() & self.live.tools.keys():
            raise RunEnded(Status.FAILED, "name_taken", f"the agent has a tool “{min(names)}” of its own")
        return {**self.live.tools, **self.caller_tools}

    def hold(self) -> None:
        """Take turns until there is a reply."""
        self.require_shared()
        guards.check_message(self.run, self.lease, self.hooks)
        is_whole = self.run.session is not None and self.run.session.is_sent_whole
        if not is_whole:  # else the caller keeps the conversation
            summary.keep_up(self.run, self.live, self.lease)
        spec = shortening.all_context(self.spec) if is_whole else self.spec
        self.messages = facts.opening(self.run) or model_messages.opening(
            self.run, spec, memory.render_memories(self.run, self.lease)
        )
        if self.run.turns or self.run.attempt > 1:
            self.catch_up()
            facts.require_first_call(self.run)
        while True:
            check_alive(self.run, self.lease)
            reply, requested = self.turn()
            reply = guards.checked_reply(self, reply)
            if requested:
                self.make_calls(reply, requested)
            elif self.conclude(reply):
                return

    def require_shared(self) -> None:
        """Raises RunEnded."""
        checks.require_shared(self.run, self.run.agent, self.live.provider)

    def catch_up(self) -> None:
        """Finish the last turn's open calls, then show the model all turns so far."""
        answers = model_messages.answers(self.run)
        self.run.turns = len(answers)
        self.records = model_messages.list_model_calls(self.run)
        last = [record for record in self.records if record.turn == self.run.turns]
        if any(not record.outcome for record in last):
            self.executor.read_grants()
            resumption.resume_calls(self.executor, last)
        self.stop_or_wait(last)
        self.messages += model_messages.turns(self.run, answers)
        if last:
            self.look_for_circles()
        elif answers:
            self.recover_reply(answers[-1])

    def recover_reply(self, answer: ModelCall) -> None:
        """The model had answered when the worker died: the row contains the reply."""
        response = answer.response
        if not response or response.get("note"):
            return
        if self.end_with(response.get("text", ""), finish=response.get("finish", "")):
            raise RunDone

    def turn(self) -> tuple[ModelReply, tuple[ModelToolCall, ...]]:
        """One model call and its tool calls. The last turn has no tools but those of a caller who demands a call."""
        self.require_shared()
        self.executor.read_grants()
        is_last = self.run.turns >= self.max_turns
        has_calls = not is_last or (self.must_call and self.run.turns == self.max_turns)
        if not has_calls:
            self.messages.append({"role": "user", "content": OUT_OF_STEPS})
        offer = offers.Offer([]) if is_last else offers.build_offer(self.executor, self.records)
        of_step = (COMPLETE,) if self.run.policy.get("step") and offer.names else ()
        question: dict[str, Any] = {
            "tool_names": offer.names,
            "extra_tools": (*of_step, *self.caller_tools.values(), *offer.more) if has_calls else (),
            "output_schema": self.output_schema,
        }
        longest = self.budgets.hold(lambda: self.live.bid(self.messages, **question))
        try:
            reply = self.ask(**question, **self.wishes(), max_tokens=longest)
        except Exception:
            self.budgets.release()
            raise
        return reply, reply.tool_calls if has_calls else ()

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
        while shortening.is_too_long(self.messages, self.live.window) and self.shorten(turn):
            pass  # a request that the model cannot read is not worth its time
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
            self.write_failure(error, turn, wall_ms=(time.monotonic() - began) * 1000)
            status = Status.EXPIRED if error.code == "deadline" else Status.FAILED
            raise RunEnded(status, error.code, str(error))
        finally:
            if deltas:
                deltas.flush()

    def shorten(self, turn: int) -> bool:
        """Show the model less of the conversation, which was too long for it. False if nothing can be left out."""
        if self.shortened >= shortening.MOST:
            return False
        before, number = shortening.measure_messages(self.messages), len(self.messages)
        while self.shortened < shortening.MOST and shortening.measure_messages(self.messages) >= before:
            self.shortened += 1
            self.messages = self.shorter_messages()
        after = shortening.measure_messages(self.messages)
        if after >= before:
            return False
        data = {"turn": turn, "left_out": max(0, number - len(self.messages)), "characters": before - after}
        entries: list[events.Entry] = [("context.shortened", data)]
        if events.record_events_and_change(self.run, entries, where=self.lease.conditions()) is None:
            raise LeaseLost(str(self.run.pk))
        return True

    def shorter_messages(self) -> list[dict[str, Any]]:
        notes = self.messages[-1:] if self.messages[-1].get("content") == OUT_OF_STEPS else []
        is_whole = self.run.session is not None and self.run.session.is_sent_whole
        spec = shortening.less_context(self.spec, self.shortened - 1 if is_whole else self.shortened)
        summary.keep_up(self.run, self.live.changed(spec), self.lease)
        messages = facts.opening(self.run) or model_messages.opening(
            self.run, spec, memory.render_memories(self.run, self.lease)
        )
        messages += model_messages.turns(self.run, model_messages.answers(self.run))
        return shortening.cut_results([*messages, *notes], self.shortened)

    def write_answer(self, reply: ModelReply, calls: list[dict[str, Any]]) -> events.Entry:
        """The model's answer as a row; the caller records its event in the same transaction."""
        run = self.run
        run.turns += 1
        run.crashes = 0  # a run that completes a turn is not the cause of dying workers
        cost = self.live.cost(reply.model_name, reply.input_tokens, reply.output_tokens)
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
        cost = self.live.cost(reply.model_name, reply.input_tokens, reply.output_tokens)
        self.budgets.settle(reply.input_tokens + reply.output_tokens, cost)

    def write(self, entries: list[events.Entry]) -> None:
        """Write events and usage, as long as the run is ours."""
        conditions, spent = self.lease.conditions(), self.spent()
        if events.record_events_and_change(self.run, entries, where=conditions, values=spent) is None:
            raise LeaseLost(str(self.run.pk))

    @transaction.atomic
    def write_failure(self, error: ModelFailed, turn: int, wall_ms: float) -> None:
        data = {"turn": turn, "code": error.code, "message": str(error)}
        if events.record_events_and_change(self.run, [("model.failed", data)], where=self.lease.conditions()) is None:
            raise LeaseLost(str(self.run.pk))
        ModelCall.objects.create(
            run=self.run,
            turn=turn,
            provider=self.live.provider_name,
            model_name=self.spec.model_name,
            started_at=clock.near() - timedelta(milliseconds=wall_ms),
            wall_ms=wall_ms,
            attempts=error.attempts,
            error={"code": error.code, "message": str(error)},
        )

    def make_calls(self, reply: ModelReply, requested: tuple[ModelToolCall, ...]) -> None:
        """Write the turn in one transaction and make its calls; then wait, end, or show the model
        the results.
        """
        checked = hooks.check_calls_by_hooks(self.executor, requested)
        with transaction.atomic():
            calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in checked]
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
            if record.name == COMPLETE.name and record.kind == COMPLETE.kind and record.outcome == "ok":
                self.complete(record.result)

    def complete(self, result: Any) -> None:
        """The model ended its step with a result of its own."""
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        if self.output_schema and (problems := schema.validate(self.output_schema, result)):
            raise RunEnded(
                Status.FAILED, "output_invalid", f"the result does not match the schema: {problems[0]['message']}"
            )
        status, error = self.verdict()
        endings.finish_run(self.run, status, lease=self.lease, reply=text, output=result, error=error)
        raise RunDone

    def look_for_circles(self) -> None:
        """A run that repeats itself is warned once, then stopped."""
        warned = self.run.policy.get("warned")
        if self.run.turns < stuck.FIRST_CHECK or (warned and warned["turn"] == self.run.turns):
            return  # the warning of this turn stands, also if the run then lost its worker
        verdict = stuck.check_progress([Step.of(record) for record in self.records], was_warned=bool(warned))
        if verdict is None:
            return
        if verdict.stop:
            raise RunEnded(Status.FAILED, "stuck", verdict.reason)
        self.run.policy = {**self.run.policy, "warned": {"turn": self.run.turns, "reason": verdict.reason}}
        self.lease.write(policy=self.run.policy)
        events.record_event(self.run, "stuck.warned", {"reason": verdict.reason})
        self.messages.append({"role": "user", "content": verdict.reason})

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
        if self.output_schema is None or (cut and not text.strip()):
            return self.finish(text, entries=entries, finish=finish)
        output, problem = parse_reply_json(text, self.output_schema)
        if problem is None:
            return self.finish(text, entries=entries, output=output, finish=finish)
        if cut:  # a second answer would end in the same way
            problem = f"{problem} ({CUT[cut]})"
        if cut or self.was_repaired():
            error = {"code": "output_invalid", "message": f"{problem}; the reply starts with: {text[:300]}"}
            return endings.finish_run(
                self.run, Status.FAILED, lease=self.lease, reply=text, cut=cut, error=error, entries=entries
            )
        self.ask_for_repair(problem, entries or [])
        return False

    def was_repaired(self) -> bool:
        return ModelCall.objects.filter(run=self.run, response__note__isnull=False).exists()

    def ask_for_repair(self, problem: str, entries: list[events.Entry]) -> None:
        note = f"Your answer is not valid: {problem}. Answer again with JSON only and nothing around it."
        call = ModelCall.objects.filter(run=self.run, turn=self.run.turns, error__isnull=True).latest("id")
        call.response = {**(call.response or {}), "note": note}
        call.save(update_fields=["response"])
        self.write(entries)
        self.messages += [
            {"role": "assistant", "content": (call.response or {}).get("text", "")},
            {"role": "user", "content": note},
        ]

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
        error = incomplete_calls.shortfall([incomplete_calls.Call.of(record) for record in self.records])
        if error is None:
            return Status.SUCCEEDED, None
        was_any_made = any(record.outcome == "ok" and record.kind != COMPLETE.kind for record in self.records)
        return Status.PARTIAL if was_any_made else Status.FAILED, error


def explain_empty(finish: str) -> str:
    """Why the model's answer has no text."""
    cut = name_cut(finish)
    if cut == "length" and finish not in TOO_LONG:
        return f"the model's answer broke off before it had a text (“{finish}”)"
    return EMPTY[cut]


def build_response_row(reply: ModelReply, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer as its row keeps it: what it said, what the model thought, and what its server wants back."""
    response = {"text": reply.text, "tool_calls": calls, "raw": reply.response if settings.KEEP_RAW else None}
    more = {"finish": reply.finish, "reasoning": reply.reasoning, "kept": reply.kept}
    return {**response, **{name: value for name, value in more.items() if value}}


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
