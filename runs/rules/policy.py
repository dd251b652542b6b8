"""Decides whether a call may run. Pure: rules in, a decision out. The strictest rule wins; unknown
things are denied.
"""

from collections.abc import Collection
from dataclasses import dataclass

from .provenance import Finding, may_pass, reason

ALLOW, ASK, DENY = "allow", "ask", "deny"
STRICTNESS = {ALLOW: 0, ASK: 1, DENY: 2}
EFFECTS = frozenset({"read", "read_out", "idempotent", "write", "sends_out", "destructive"})
# The runner's own; the names are reserved.
ALWAYS_OPEN = frozenset({"complete", "read_skill", "search_tools"})


@dataclass(frozen=True, slots=True)
class Decision:
    mode: str
    reason: str
    # Of an approval for untrusted content: the origin of each argument.
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """What is known about one tool at this moment. `grant` is None if the tool is not granted.

    `allowed` None means every granted tool; `blocked` wins over `allowed`, and over `ask`. `findings` gives the
    origin of each argument if the run has read untrusted content; None while no arguments are
    checked. A delegation has no effect of its own: the calls of the child run are checked, and it
    carries the same mark. `needs_consent`: an agent or chain of somebody else uses the person's own device or
    account for the first time.
    """

    tool: str
    grant: str | None
    effect: str
    is_enabled: bool = True
    allowed: Collection[str] | None = None
    blocked: Collection[str] = ()
    ask: Collection[str] = ()
    has_untrusted: bool = False
    allow_after_untrusted: bool = False
    findings: Collection[Finding] | None = None
    is_delegation: bool = False
    ask_effects: Collection[str] = ()
    is_callback: bool = False
    needs_consent: bool = False


def decide_call(rules: Rules) -> Decision:
    """Whether the call may run: the strictest of all opinions."""
    # Among equally strict ones the one with findings tells the person most.
    verdict = max(opinions(rules), key=lambda decision: (STRICTNESS[decision.mode], len(decision.findings)))
    if rules.is_callback and verdict.mode == ASK:
        return Decision(DENY, f"{verdict.reason}; a function's callback cannot wait for a person")
    return verdict


def opinions(rules: Rules) -> list[Decision]:
    return [of_person(rules), of_grant(rules), of_step(rules), of_effect(rules), of_untrusted(rules)]


def of_person(rules: Rules) -> Decision:
    if rules.needs_consent:
        return Decision(ASK, f"somebody else's agent or chain wants to use “{rules.tool}” on your device or account")
    return Decision(ALLOW, "the person's own, the site's, or approved before")


def of_grant(rules: Rules) -> Decision:
    if rules.tool in ALWAYS_OPEN:
        return Decision(ALLOW, "part of every run")
    if rules.grant is None:
        return Decision(DENY, f"“{rules.tool}” is not granted to this agent")
    if not rules.is_enabled:
        return Decision(DENY, f"“{rules.tool}” is switched off")
    if rules.grant == DENY:
        return Decision(DENY, f"“{rules.tool}” is set to refuse every call")
    if rules.grant == ASK:
        return Decision(ASK, f"“{rules.tool}” is set to ask before every call")
    if rules.grant == ALLOW:
        return Decision(ALLOW, "granted")
    return Decision(DENY, f"“{rules.tool}” is granted with an unknown mode")


def of_step(rules: Rules) -> Decision:
    if rules.tool in ALWAYS_OPEN:
        return Decision(ALLOW, "part of every run")
    if rules.tool in rules.blocked:
        return Decision(DENY, f"this step blocks “{rules.tool}”")
    if rules.allowed is not None and rules.tool not in rules.allowed:
        return Decision(DENY, f"this step does not allow “{rules.tool}”")
    if rules.tool in rules.ask:
        return Decision(ASK, f"this step is set to ask before every call of “{rules.tool}”")
    return Decision(ALLOW, "allowed by the step")


def of_effect(rules: Rules) -> Decision:
    if rules.effect not in EFFECTS:
        return Decision(DENY, f"the effect “{rules.effect}” is unknown")
    if rules.effect in rules.ask_effects:
        return Decision(ASK, f"this site asks before every call with the effect “{rules.effect}”")
    return Decision(ALLOW, "its effect needs no approval")


def of_untrusted(rules: Rules) -> Decision:
    """After untrusted content everything except a read asks, unless its arguments come from elsewhere."""
    if not rules.has_untrusted or rules.effect == "read":
        return Decision(ALLOW, "nothing untrusted was read")
    if rules.allow_after_untrusted or rules.is_delegation or rules.tool in ALWAYS_OPEN:
        return Decision(ALLOW, "it may follow from untrusted content")
    if rules.findings is None:
        return Decision(ASK, "the run has read untrusted content")
    if may_pass(rules.findings, rules.effect):
        return Decision(ALLOW, "its arguments come from the user, or from trusted records")
    why = reason(rules.findings)
    return Decision(ASK, why, tuple(rules.findings))
