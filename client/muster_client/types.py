# Generated from the OpenAPI document by client/generate.py: change that file, then run `make reference`.
"""What the API takes and returns, as dictionaries: generated from its OpenAPI document."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal, TypeAlias, TypedDict

from typing_extensions import NotRequired


class AgentFileRequest(TypedDict):
    file: dict[str, Any]
    agent: NotRequired[str]


class AgentFileToolsRequest(TypedDict):
    file: dict[str, Any]


class AgentUser(TypedDict):
    kind: str
    name: str


class AgentUsers(TypedDict):
    results: list[AgentUser]
    next: str | None


class Artifact(TypedDict):
    id: str
    file: str
    name: str
    media_type: str
    size: int
    sha256: str
    untrusted: bool
    run: str
    call: str | None
    created_at: str
    truncated: NotRequired[list[str]]


class Audit(TypedDict):
    id: str
    at: str
    actor: str
    action: str
    subject_kind: str
    subject_id: NotRequired[str]
    subject_name: NotRequired[str]
    details: dict[str, Any]
    source: NotRequired[str]
    truncated: NotRequired[list[str]]


class AuthorizeRequest(TypedDict):
    access: NotRequired[list[str]]
    name: NotRequired[str]
    connection: NotRequired[str | None]


class Beat(TypedDict):
    lease_expires_at: str
    cancel_requested: bool


class Belonging(TypedDict):
    kind: str
    name: str
    team: str | None
    moves: bool


class BelongingTeam(TypedDict):
    team: str
    role: str
    is_last: bool


class Belongings(TypedDict):
    rows: list[Belonging]
    counts: dict[str, int]
    teams: list[BelongingTeam]


class BudgetRequest(TypedDict):
    agent: NotRequired[str | None]
    team: NotRequired[str | None]
    period: NotRequired[Literal["run", "day", "month"]]
    max_tokens: NotRequired[int | None]
    max_cost: NotRequired[Decimal | None]
    max_runs: NotRequired[int | None]
    enabled: NotRequired[bool]


class CallRequest(TypedDict):
    id: str
    tool: str
    arguments: NotRequired[dict[str, Any]]


class CallbackRequest(TypedDict):
    state: str
    code: NotRequired[str]
    error: NotRequired[str]
    iss: NotRequired[str]


class CallerToolRequest(TypedDict):
    name: str
    description: NotRequired[str]
    input_schema: NotRequired[dict[str, Any]]
    timeout_s: NotRequired[float]


class CancelRequest(TypedDict):
    reason: NotRequired[str]


class Candidate(TypedDict):
    agent: str
    score: float
    reason: str


class Step(TypedDict):
    key: str
    agent: NotRequired[str]
    tool: NotRequired[str]
    chain: NotRequired[str]
    needs: NotRequired[list[str]]
    input: NotRequired[dict[str, Any]]
    when: NotRequired[str]
    for_each: NotRequired[str]
    max_parallel: NotRequired[int]
    repeat_until: NotRequired[dict[str, Any] | None]
    retry: NotRequired[dict[str, Any]]
    on_error: NotRequired[Literal["stop", "continue", "fallback"]]
    fallback: NotRequired[str]
    timeout_s: NotRequired[float]
    approval: NotRequired[bool]
    approval_expires_s: NotRequired[float]
    policy: NotRequired[dict[str, Any]]
    max_turns: NotRequired[int | None]
    output_schema: NotRequired[dict[str, Any] | None]
    model: NotRequired[str]
    instructions: NotRequired[str]
    variables: NotRequired[dict[str, Any]]
    covers: NotRequired[dict[str, Any] | None]
    context: NotRequired[list[dict[str, Any]]]


class ChainVersion(TypedDict):
    version: int
    sha256: str
    author: str | None
    note: NotRequired[str]
    created_at: str
    is_live: bool
    truncated: NotRequired[list[str]]


Change = TypedDict(
    "Change",
    {
        "path": str,
        "from": Any,
        "to": Any,
    },
)


class ClaimRequest(TypedDict):
    executor: str
    lease: NotRequired[float]


class CollectionAccount(TypedDict):
    id: str
    account: str
    query: str
    messages: int
    failed: list[dict[str, str]]
    error: str
    created_at: str
    truncated: NotRequired[list[str]]


class CollectionRequest(TypedDict):
    name: str
    description: NotRequired[str]
    embeddings: NotRequired[str]
    team: NotRequired[str | None]


class CommentRequest(TypedDict):
    text: str


class Counts(TypedDict):
    processed: int
    created: int
    updated: int


class DecisionRequest(TypedDict):
    decision: Literal["approve", "deny"]
    arguments: NotRequired[dict[str, Any] | None]
    note: NotRequired[str]


class DefinitionsRequest(TypedDict):
    yaml: str


class Device(TypedDict):
    id: str
    name: str
    platform: str
    client_version: str
    is_online: bool
    last_seen: str | None
    connected_at: str | None
    tools: list[str]
    folders: list[str]
    pending_offers: int
    created_at: str
    revoked_at: str | None
    truncated: NotRequired[list[str]]


class DeviceLogin(TypedDict):
    id: str
    user_code: str
    verification_uri: str
    interval: int
    expires_at: str


class DevicePollRequest(TypedDict):
    id: str


Diff = TypedDict(
    "Diff",
    {
        "from": int | None,
        "to": int | None,
        "changes": list[Change],
        "text": str,
    },
)


class Due(TypedDict):
    due_at: str
    due_local: str


class DueTimes(TypedDict):
    timezone: str
    due: list[Due]


class Embed(TypedDict):
    id: str
    agent: str
    key: str
    enabled: NotRequired[bool]
    origins: NotRequired[list[str]]
    title: NotRequired[str]
    greeting: NotRequired[str]
    suggestions: NotRequired[list[str]]
    colour: NotRequired[str]
    tools: NotRequired[list[str]]
    per_visitor: NotRequired[int]
    per_minute: NotRequired[int]
    max_characters: NotRequired[int]
    daily_cost: NotRequired[Decimal | None]
    monthly_cost: NotRequired[Decimal | None]
    page_url: str
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class EmbedRequest(TypedDict):
    agent: str
    enabled: NotRequired[bool]
    origins: NotRequired[list[str]]
    title: NotRequired[str]
    greeting: NotRequired[str]
    suggestions: NotRequired[list[str]]
    colour: NotRequired[str]
    tools: NotRequired[list[str]]
    per_visitor: NotRequired[int]
    per_minute: NotRequired[int]
    max_characters: NotRequired[int]
    daily_cost: NotRequired[Decimal | None]
    monthly_cost: NotRequired[Decimal | None]


class Erased(TypedDict):
    erased: int


class ErasedDocuments(TypedDict):
    erased: int


class ErrorBody(TypedDict):
    code: str
    message: str
    hint: str
    details: list[Any]
    request_id: str


class ErrorRequest(TypedDict):
    code: str
    message: str


class EvaluationQuestion(TypedDict):
    id: str
    question: str
    document: str
    place: str
    created_at: str
    truncated: NotRequired[list[str]]


class Event(TypedDict):
    seq: int
    type: str
    at: str
    data: NotRequired[Any]


class EventPage(TypedDict):
    results: list[Event]
    next: str | None


class ExecuteRequest(TypedDict):
    arguments: NotRequired[dict[str, Any]]
    version: NotRequired[int]


class Exported(TypedDict):
    yaml: str


class FileRequest(TypedDict):
    name: str
    media_type: NotRequired[str]
    untrusted: NotRequired[bool]
    text: NotRequired[str]
    data: NotRequired[str]


class Folder(TypedDict):
    id: str
    device: str
    device_name: str
    path: str
    created_at: str
    truncated: NotRequired[list[str]]


class FoundDocument(TypedDict):
    id: str
    name: str
    untrusted: bool
    device: str | None


class FoundPlace(TypedDict):
    page: int | None
    heading: str
    position: int | None
    text: str
    line: int | None


class FunctionError(TypedDict):
    type: str
    message: str
    line: int | None


class FunctionTest(TypedDict):
    id: str
    name: str
    arguments: NotRequired[dict[str, Any]]
    expects: NotRequired[Literal["value", "schema", "error"]]
    expected: NotRequired[Any]
    tolerance: NotRequired[float]
    truncated: NotRequired[list[str]]


class FunctionTestRequest(TypedDict):
    name: str
    arguments: NotRequired[dict[str, Any]]
    expects: NotRequired[Literal["value", "schema", "error"]]
    expected: NotRequired[Any]
    tolerance: NotRequired[float]


class FunctionVersion(TypedDict):
    version: int
    sha256: str
    author: str | None
    note: NotRequired[str]
    created_at: str
    is_live: bool
    truncated: NotRequired[list[str]]


class HandedOver(TypedDict):
    rows: dict[str, list[str]]


class Health(TypedDict):
    health: str
    last_error: str
    account: str
    checked_at: str | None
    login_ends_at: str | None
    reconnect: str | None


class HeartbeatRequest(TypedDict):
    claim: str
    lease: NotRequired[float]
    note: NotRequired[str]
    fraction: NotRequired[float]


class ImportRequest(TypedDict):
    document: NotRequired[dict[str, Any]]
    text: NotRequired[str]
    url: NotRequired[str]
    base_url: NotRequired[str]
    operations: NotRequired[list[str]]
    effects: NotRequired[dict[str, Any]]


class Imported(TypedDict):
    created: int
    known: int


class InputFailureRequest(TypedDict):
    code: NotRequired[str]
    message: str


class IntervalFieldRequest(TypedDict):
    every: int
    period: Literal["seconds", "minutes", "hours", "days"]


class InvitationLink(TypedDict):
    url: str
    expires_at: str


class Key(TypedDict):
    id: str
    name: NotRequired[str]
    prefix: str
    scopes: list[str]
    expires_at: NotRequired[str | None]
    revoked_at: str | None
    last_used_at: str | None
    created_at: str
    is_live: bool
    truncated: NotRequired[list[str]]


class KeyRequest(TypedDict):
    name: NotRequired[str]
    scopes: list[str]
    expires_at: NotRequired[str | None]


class Keys(TypedDict):
    p256dh: str
    auth: str


class KeysRequest(TypedDict):
    p256dh: str
    auth: str


class KnownModel(TypedDict):
    input: float
    output: float
    window: int | None
    answer: int | None
    features: list[Literal["tools", "vision", "reasoning", "schema"]]


class LeftOut(TypedDict):
    place: str
    reason: str
    is_lost: bool


class Listing(TypedDict):
    new: list[str]
    changed: list[str]
    gone: list[str]
    refused: list[dict[str, str]]
    usable: int
    total: int


class LiveRuns(TypedDict):
    queued: int
    running: int
    waiting: int


class Loaded(TypedDict):
    agent: str
    version: int
    hash: str


class MeTeam(TypedDict):
    team: str
    role: str


class ModelParams(TypedDict):
    temperature: NotRequired[float]
    top_p: NotRequired[float]
    presence_penalty: NotRequired[float]
    frequency_penalty: NotRequired[float]
    max_tokens: NotRequired[int]


class ModelParamsRequest(TypedDict):
    temperature: NotRequired[float]
    top_p: NotRequired[float]
    presence_penalty: NotRequired[float]
    frequency_penalty: NotRequired[float]
    max_tokens: NotRequired[int]


class Most(TypedDict):
    tokens: NotRequired[int | None]
    cost: NotRequired[float | None]


class MostRequest(TypedDict):
    tokens: NotRequired[int | None]
    cost: NotRequired[float | None]


class Need(TypedDict):
    kind: str
    name: str
    owner: str | None
    may_share: bool
    problem: str


class Needs(TypedDict):
    needs: list[Need]


class NewCollectionAccountRequest(TypedDict):
    account: str
    query: str


class NewDocumentRequest(TypedDict):
    name: NotRequired[str]
    text: NotRequired[str]
    media_type: NotRequired[Literal["text/plain", "text/markdown", "text/html", "text/csv", "application/json"]]
    url: NotRequired[str]
    file: NotRequired[str]
    untrusted: NotRequired[bool]


class NewEvaluationQuestionRequest(TypedDict):
    question: str
    document: str
    place: NotRequired[str]


class NewFolderRequest(TypedDict):
    device: str
    path: str


class NewKey(TypedDict):
    id: str
    name: NotRequired[str]
    prefix: str
    scopes: list[str]
    expires_at: NotRequired[str | None]
    revoked_at: str | None
    last_used_at: str | None
    created_at: str
    is_live: bool
    key: str


class NewWebhook(TypedDict):
    id: str
    url: str
    events: NotRequired[
        list[
            Literal[
                "agent.anomaly",
                "approval.decided",
                "approval.requested",
                "input.answered",
                "input.requested",
                "run.cancel_requested",
                "run.finished",
                "run.resumed",
                "run.started",
                "run.waiting",
                "schedule.paused",
            ]
        ]
    ]
    enabled: NotRequired[bool]
    created_at: str
    updated_at: str
    secret: str


class Node(TypedDict):
    key: str
    kind: str
    target: str
    when: str
    for_each: str
    x: int
    y: int
    status: str | None
    done: int
    total: int


class NotSearched(TypedDict):
    device: str
    path: str
    reason: str


class Outcome(TypedDict):
    status: str
    result: Any
    error: FunctionError | None


class OwnHeartbeatRequest(TypedDict):
    lease: NotRequired[float]
    note: NotRequired[str]
    fraction: NotRequired[float]


class PaginatedArtifactList(TypedDict):
    results: list[Artifact]
    next: str | None


class PaginatedAuditList(TypedDict):
    results: list[Audit]
    next: str | None


class PaginatedChainVersionList(TypedDict):
    results: list[ChainVersion]
    next: str | None


class PaginatedCollectionAccountList(TypedDict):
    results: list[CollectionAccount]
    next: str | None


class PaginatedDeviceList(TypedDict):
    results: list[Device]
    next: str | None


class PaginatedEmbedList(TypedDict):
    results: list[Embed]
    next: str | None


class PaginatedEvaluationQuestionList(TypedDict):
    results: list[EvaluationQuestion]
    next: str | None


class PaginatedFolderList(TypedDict):
    results: list[Folder]
    next: str | None


class PaginatedFunctionTestList(TypedDict):
    results: list[FunctionTest]
    next: str | None


class PaginatedFunctionVersionList(TypedDict):
    results: list[FunctionVersion]
    next: str | None


class PaginatedKeyList(TypedDict):
    results: list[Key]
    next: str | None


class PairRequest(TypedDict):
    code: str
    name: NotRequired[str]
    platform: NotRequired[str]
    preview: NotRequired[bool]


class Paired(TypedDict):
    device: str | None
    credential: str | None
    account: str
    server: str


class Pairing(TypedDict):
    code: str
    expires_at: str


class PatchedBudgetRequest(TypedDict):
    agent: NotRequired[str | None]
    team: NotRequired[str | None]
    period: NotRequired[Literal["run", "day", "month"]]
    max_tokens: NotRequired[int | None]
    max_cost: NotRequired[Decimal | None]
    max_runs: NotRequired[int | None]
    enabled: NotRequired[bool]


class PatchedChangeRequest(TypedDict):
    text: NotRequired[str]
    kind: NotRequired[Literal["fact", "preference", "event"]]
    subject: NotRequired[str]
    valid_from: NotRequired[str | None]
    valid_until: NotRequired[str | None]


class PatchedCollectionRequest(TypedDict):
    name: NotRequired[str]
    description: NotRequired[str]
    embeddings: NotRequired[str]
    team: NotRequired[str | None]


class PatchedDeviceRequest(TypedDict):
    name: NotRequired[str]


class PatchedEmbedRequest(TypedDict):
    agent: NotRequired[str]
    enabled: NotRequired[bool]
    origins: NotRequired[list[str]]
    title: NotRequired[str]
    greeting: NotRequired[str]
    suggestions: NotRequired[list[str]]
    colour: NotRequired[str]
    tools: NotRequired[list[str]]
    per_visitor: NotRequired[int]
    per_minute: NotRequired[int]
    max_characters: NotRequired[int]
    daily_cost: NotRequired[Decimal | None]
    monthly_cost: NotRequired[Decimal | None]


class PatchedFunctionTestRequest(TypedDict):
    name: NotRequired[str]
    arguments: NotRequired[dict[str, Any]]
    expects: NotRequired[Literal["value", "schema", "error"]]
    expected: NotRequired[Any]
    tolerance: NotRequired[float]


class PatchedPromptRequest(TypedDict):
    name: NotRequired[str]
    description: NotRequired[str]
    text: NotRequired[str]
    team: NotRequired[str | None]


class PatchedSecretRequest(TypedDict):
    name: NotRequired[str]
    value: NotRequired[str]
    hosts: NotRequired[list[str]]
    header: NotRequired[str]
    template: NotRequired[str]
    team: NotRequired[str | None]


class PatchedSettingsRequest(TypedDict):
    language: NotRequired[Literal["en", "de"] | Literal[""]]
    zone: NotRequired[str]
    email_notices: NotRequired[bool]
    push_notices: NotRequired[bool]
    teams_url: NotRequired[str]


class PatchedSkillRequest(TypedDict):
    text: NotRequired[str]
    team: NotRequired[str | None]


class PatchedWebhookRequest(TypedDict):
    url: NotRequired[str]
    events: NotRequired[
        list[
            Literal[
                "agent.anomaly",
                "approval.decided",
                "approval.requested",
                "input.answered",
                "input.requested",
                "run.cancel_requested",
                "run.finished",
                "run.resumed",
                "run.started",
                "run.waiting",
                "schedule.paused",
            ]
        ]
    ]
    enabled: NotRequired[bool]


class Pending(TypedDict):
    status: str


class PersonTeam(TypedDict):
    team: str
    role: str


class PersonTeamRequest(TypedDict):
    team: str
    role: str


class PinRequest(TypedDict):
    value: NotRequired[Any]
    run: NotRequired[str]


class Place(TypedDict):
    page: int | None
    heading: str
    position: int
    text: str


class Price(TypedDict):
    input: NotRequired[float]
    output: NotRequired[float]


class PriceRequest(TypedDict):
    input: NotRequired[float]
    output: NotRequired[float]


class Problem(TypedDict):
    step: str
    code: str
    message: str
    hint: str


class PromptRequest(TypedDict):
    name: str
    description: NotRequired[str]
    text: str
    team: NotRequired[str | None]


class PublicKey(TypedDict):
    public_key: str


class PublishFunctionRequest(TypedDict):
    note: NotRequired[str]
    override: NotRequired[bool]
    expected: NotRequired[str]


class PublishRequest(TypedDict):
    note: NotRequired[str]


class PublishSkillRequest(TypedDict):
    note: NotRequired[str]
    reviewed: NotRequired[bool]


class Published(TypedDict):
    version: int
    sha256: str


class Rank(TypedDict):
    question: str
    document: str
    place: str
    rank: int | None


class ReasonRequest(TypedDict):
    reason: NotRequired[str]


class ReceiverRequest(TypedDict):
    to: str


class Refusal(TypedDict):
    severity: str
    code: str
    message: str
    hint: str
    line: int
    column: int
    end_line: int
    end_column: int
    field: NotRequired[str]


class RefusedTool(TypedDict):
    name: str
    code: str
    message: str
    details: list[dict[str, Any]]


class RemoteTool(TypedDict):
    name: str
    tool: str
    effect: str
    enabled: bool
    offered: dict[str, Any]
    sha256: str
    is_approved: bool
    is_changed: bool
    is_offered: NotRequired[bool]
    approved_at: NotRequired[str | None]
    calls: NotRequired[int]
    failures: NotRequired[int]
    mean_ms: float
    last_error: NotRequired[str]
    seen_at: str
    truncated: NotRequired[list[str]]


class ReplacingFileRequest(TypedDict):
    path: str
    text: NotRequired[str]
    data: NotRequired[str]
    sha256: NotRequired[str]


class ReplayRequest(TypedDict):
    version: NotRequired[int | None]
    limit: NotRequired[int]


class ResumeAnswerRequest(TypedDict):
    result: NotRequired[Any]
    answer: NotRequired[Any]
    error: NotRequired[InputFailureRequest]


class ResumeRequest(TypedDict):
    inputs: dict[str, ResumeAnswerRequest]


class RetryRequest(TypedDict):
    step: NotRequired[str]
    input: NotRequired[Any]
    live: NotRequired[bool]


class Revoked(TypedDict):
    told_service: bool


class RollbackRequest(TypedDict):
    version: int


class Route(TypedDict):
    agent: str | None
    method: str
    reason: str
    candidates: list[Candidate]


class RunError(TypedDict):
    code: str
    message: str
    step: NotRequired[str]
    run: NotRequired[str]
    items: NotRequired[list[dict[str, Any]]]
    missing: NotRequired[Any]
    details: NotRequired[Any]


class RunTestsRequest(TypedDict):
    version: NotRequired[int | None]


class RunUrls(TypedDict):
    self: str
    events: str
    stream: str
    cancel: str
    page: str


class Scope3(TypedDict):
    scope: str
    access: Literal["read", "write", "send"]
    why: str


class ScriptRequest(TypedDict):
    path: str
    name: NotRequired[str]


class SearchRequest(TypedDict):
    query: str
    limit: NotRequired[int]
    version: NotRequired[int]


class SecretRequest(TypedDict):
    name: str
    value: str
    hosts: NotRequired[list[str]]
    header: NotRequired[str]
    template: NotRequired[str]
    team: NotRequired[str | None]


class SentFileRequest(TypedDict):
    path: str
    text: NotRequired[str]
    data: NotRequired[str]


class Served(TypedDict):
    models: list[str]
    default_model: str
    known: dict[str, KnownModel]


class Service(TypedDict):
    provider: str
    title: str
    is_configured: bool
    scopes: list[Scope3]
    tools: list[str]


class Services(TypedDict):
    results: list[Service]
    next: str | None


class Settings(TypedDict):
    language: NotRequired[Literal["en", "de"] | Literal[""]]
    zone: NotRequired[str]
    email_notices: NotRequired[bool]
    push_notices: NotRequired[bool]
    teams_notices: bool
    updated_at: str | None


class SharedLink(TypedDict):
    url: str
    shows_tools: NotRequired[bool]
    last_seq: int
    created_at: str


class SharedLinkRequest(TypedDict):
    shows_tools: NotRequired[bool]


class SharedNeeds(TypedDict):
    shared: list[Need]
    needs: list[Need]


class SkillFile(TypedDict):
    path: str
    size: int
    sha256: str
    media_type: str


class SkillFileRequest(TypedDict):
    path: str
    size: int
    sha256: str
    media_type: str


class SkillVersion(TypedDict):
    version: int
    sha256: str
    author: str | None
    note: NotRequired[str]
    created_at: str
    is_live: bool
    untrusted: bool
    truncated: NotRequired[list[str]]


class Source(TypedDict):
    run: str | None
    call: str | None


class SpentRequest(TypedDict):
    input_tokens: NotRequired[int]
    output_tokens: NotRequired[int]
    cost: NotRequired[Decimal]


class StartRequest(TypedDict):
    input: NotRequired[Any]
    version: NotRequired[int | None]
    metadata: NotRequired[dict[str, Any]]
    priority: NotRequired[Literal["batch"] | None]
    timeout: NotRequired[float]
    wait: NotRequired[float]
    draft: NotRequired[bool]
    until: NotRequired[str]
    pinned: NotRequired[dict[str, PinRequest]]


class Subscription(TypedDict):
    id: str
    browser: NotRequired[str]
    digest: str
    created_at: str
    truncated: NotRequired[list[str]]


class SubscriptionRequest(TypedDict):
    endpoint: str
    keys: KeysRequest
    browser: NotRequired[str]


class TeamToShareRequest(TypedDict):
    team: str


class TestFromRequest(TypedDict):
    execution: str
    name: NotRequired[str]


class ToolPolicy(TypedDict):
    allowed: NotRequired[list[str] | None]
    blocked: NotRequired[list[str]]
    ask: NotRequired[list[str]]


class ToolPolicyRequest(TypedDict):
    allowed: NotRequired[list[str] | None]
    blocked: NotRequired[list[str]]
    ask: NotRequired[list[str]]


class ToolSearchRequest(TypedDict):
    text: str
    limit: NotRequired[int]
    kinds: NotRequired[
        list[
            Literal[
                "function",
                "connector",
                "device",
                "agent",
                "chain",
                "mcp",
                "http",
                "a2a",
                "knowledge",
                "skill",
                "builtin",
            ]
        ]
    ]


class TrialRequest(TypedDict):
    model: NotRequired[str]
    requests: NotRequired[bool]


class TryRequest(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    source: str
    description: NotRequired[str]
    entry: NotRequired[str]
    is_async: NotRequired[bool]
    requires_context: NotRequired[bool]
    safe_mode: NotRequired[bool]
    is_pure: NotRequired[bool]
    cache_ttl: NotRequired[int]
    effect: NotRequired[Literal["read", "read_out", "idempotent", "write", "sends_out", "destructive"]]
    timeout: NotRequired[float]
    memory_limit: NotRequired[int]
    max_concurrency: NotRequired[int]
    allowed_imports: NotRequired[list[str]]
    allowed_hosts: NotRequired[list[str]]
    secrets: NotRequired[list[str]]
    reuse: NotRequired[Literal["never", "run"]]
    min_isolation: NotRequired[Literal["reduced", "full"]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]
    arguments: NotRequired[dict[str, Any]]


class UploadRequest(TypedDict):
    name: NotRequired[str]
    media_type: NotRequired[str]
    untrusted: NotRequired[Literal["true", "false"]]
    file: bytes


class UploadedDocumentRequest(TypedDict):
    file: bytes
    name: NotRequired[str]
    untrusted: NotRequired[Literal["true", "false"]]


class Usage(TypedDict):
    input_tokens: int
    output_tokens: int
    cost: str


class UsageRow(TypedDict):
    agent: NotRequired[str | None]
    day: NotRequired[str | None]
    status: NotRequired[str | None]
    user: NotRequired[str | None]
    runs: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost: str
    turns: float


class UsageTable(TypedDict):
    results: list[UsageRow]
    next: str | None


class User(TypedDict):
    kind: str
    name: str
    mode: str
    version: int | None


class Validated(TypedDict):
    valid: bool
    refusals: list[Refusal]
    entry: str
    description: str
    is_async: bool
    requires_context: bool
    input_schema: dict[str, Any]
    output_schema: NotRequired[dict[str, Any] | None]
    imports: list[str]
    requires: list[str]


class Verdict(TypedDict):
    test: str
    ok: bool
    reason: str
    status: str
    result: Any
    error: FunctionError | None
    wall_ms: float


class Verdicts(TypedDict):
    passed: int
    failed: int
    results: list[Verdict]


class Version(TypedDict):
    version: int
    sha256: str
    author: str | None
    note: NotRequired[str]
    created_at: str
    is_live: bool
    truncated: NotRequired[list[str]]


class VersionRequest(TypedDict):
    version: int


class Warning(TypedDict):
    code: str
    message: str
    hint: str
    needs: list[Need]


class Webhook(TypedDict):
    id: str
    url: str
    events: NotRequired[
        list[
            Literal[
                "agent.anomaly",
                "approval.decided",
                "approval.requested",
                "input.answered",
                "input.requested",
                "run.cancel_requested",
                "run.finished",
                "run.resumed",
                "run.started",
                "run.waiting",
                "schedule.paused",
            ]
        ]
    ]
    enabled: NotRequired[bool]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class WebhookRequest(TypedDict):
    url: str
    events: NotRequired[
        list[
            Literal[
                "agent.anomaly",
                "approval.decided",
                "approval.requested",
                "input.answered",
                "input.requested",
                "run.cancel_requested",
                "run.finished",
                "run.resumed",
                "run.started",
                "run.waiting",
                "schedule.paused",
            ]
        ]
    ]
    enabled: NotRequired[bool]


class WholeChainVersion(TypedDict):
    version: int
    sha256: str
    author: str | None
    note: NotRequired[str]
    created_at: str
    is_live: bool
    spec: dict[str, Any]


class WholeFunctionVersion(TypedDict):
    version: int
    sha256: str
    author: str | None
    note: NotRequired[str]
    created_at: str
    is_live: bool
    source: str
    spec: dict[str, Any]


class WholeSkillVersion(TypedDict):
    version: int
    sha256: str
    author: str | None
    note: NotRequired[str]
    created_at: str
    is_live: bool
    untrusted: bool
    text: str
    front: dict[str, Any]
    files: list[SkillFile]


class WholeVersion(TypedDict):
    version: int
    sha256: str
    author: str | None
    note: NotRequired[str]
    created_at: str
    is_live: bool
    spec: dict[str, Any]


class Worker(TypedDict):
    name: str
    started_at: str
    seen_at: str
    runs: NotRequired[int]
    pools: list[str]
    release: NotRequired[str]
    format: NotRequired[int]
    loaded: list[Loaded]
    others: int
    truncated: NotRequired[list[str]]


class WrittenSkillRequest(TypedDict):
    text: str
    files: NotRequired[list[SentFileRequest]]


class Ability(TypedDict):
    name: Literal["plain", "stream", "tools", "schema"]
    ok: bool
    message: str


class Anomaly(TypedDict):
    agent: str
    measure: Literal["failures", "cost", "latency"]
    value: float
    usual: float
    limit: float
    runs: int
    message: str


class AnomalyTable(TypedDict):
    results: list[Anomaly]
    next: str | None


class Approval(TypedDict):
    id: str
    run: str
    call: str | None
    tool: str
    effect: NotRequired[str]
    reason: NotRequired[str]
    arguments: NotRequired[Any]
    findings: NotRequired[Any]
    edited_arguments: NotRequired[Any]
    decides: NotRequired[Literal["starter", "owner", "team", "role"]]
    not_starter: NotRequired[bool]
    may_decide: bool
    expires_at: str
    default: NotRequired[Literal["deny", "approve"]]
    status: NotRequired[Literal["open", "approved", "denied", "expired", "void"]]
    decided_by: NotRequired[str | None]
    decided_at: NotRequired[str | None]
    note: NotRequired[str]
    created_at: str
    truncated: NotRequired[list[str]]


class ApproveRequest(TypedDict):
    sha256: str
    effect: NotRequired[Literal["read", "read_out", "idempotent", "write", "sends_out", "destructive"]]


class AskedScope(TypedDict):
    scope: str
    access: Literal["read", "write", "send"] | None
    why: str


class Authorization(TypedDict):
    url: str
    scopes: list[AskedScope]
    expires_at: str


class Budget(TypedDict):
    id: str
    agent: NotRequired[str | None]
    team: NotRequired[str | None]
    user: str | None
    embed: str | None
    period: NotRequired[Literal["run", "day", "month"]]
    max_tokens: NotRequired[int | None]
    max_cost: NotRequired[Decimal | None]
    max_runs: NotRequired[int | None]
    enabled: NotRequired[bool]
    created_at: str
    truncated: NotRequired[list[str]]


class Collection(TypedDict):
    name: str
    description: NotRequired[str]
    version: int
    embeddings: NotRequired[str]
    embeddings_error: str
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class Connection(TypedDict):
    id: str
    name: str
    provider: Literal["gmail", "outlook", "teams", "mcp", "openapi", "a2a"]
    base_url: NotRequired[str]
    config: NotRequired[dict[str, Any]]
    secret_name: NotRequired[str]
    account: str
    scopes: list[str]
    health: Literal["unknown", "ok", "expiring", "broken"]
    last_error: str
    checked_at: str | None
    token_expires_at: str | None
    login_ends_at: str | None
    is_linked: bool
    reconnect: str | None
    enabled: NotRequired[bool]
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class ConnectionRequest(TypedDict):
    name: str
    provider: Literal["gmail", "outlook", "teams", "mcp", "openapi", "a2a"]
    base_url: NotRequired[str]
    config: NotRequired[dict[str, Any]]
    secret_name: NotRequired[str]
    enabled: NotRequired[bool]
    team: NotRequired[str | None]


class ContextRequest(TypedDict):
    source: Literal["summary", "compact", "session", "transcript", "file"]
    id: str
    last: NotRequired[int]


class Delivery(TypedDict):
    id: str
    type: str
    state: NotRequired[Literal["pending", "delivered", "dead"]]
    attempts: NotRequired[int]
    next_attempt_at: str
    last_status: NotRequired[int | None]
    last_error: NotRequired[str]
    created_at: str
    delivered_at: NotRequired[str | None]
    truncated: NotRequired[list[str]]


class DeviceCall(TypedDict):
    id: str
    device: str | None
    run: str | None
    tool: str
    arguments: Any
    run_context: Any
    state: Literal["queued", "sent", "acked", "done", "failed", "expired", "cancelled", "unknown"]
    attempt: int
    deadline: str
    result: Any
    error: Any
    late: bool
    progress: Any
    created_at: str
    sent_at: str | None
    acked_at: str | None
    finished_at: str | None
    truncated: NotRequired[list[str]]


class Difference(TypedDict):
    execution: str
    arguments: dict[str, Any]
    before: Outcome
    after: Outcome
    reason: str


class Document(TypedDict):
    id: str
    name: str
    source: Literal["upload", "file", "text", "url", "device", "connector"]
    url: str
    file: str | None
    media_type: str
    size: int | None
    checksum: str
    untrusted: bool
    status: Literal["waiting", "indexing", "ready", "failed"]
    error: dict[str, Any] | None
    left_out: list[LeftOut]
    chunks: int
    from_version: int | None
    until_version: int | None
    created_at: str
    indexed_at: str | None
    truncated: NotRequired[list[str]]


class DraftRequest(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    source: str
    description: NotRequired[str]
    entry: NotRequired[str]
    is_async: NotRequired[bool]
    requires_context: NotRequired[bool]
    safe_mode: NotRequired[bool]
    is_pure: NotRequired[bool]
    cache_ttl: NotRequired[int]
    effect: NotRequired[Literal["read", "read_out", "idempotent", "write", "sends_out", "destructive"]]
    timeout: NotRequired[float]
    memory_limit: NotRequired[int]
    max_concurrency: NotRequired[int]
    allowed_imports: NotRequired[list[str]]
    allowed_hosts: NotRequired[list[str]]
    secrets: NotRequired[list[str]]
    reuse: NotRequired[Literal["never", "run"]]
    min_isolation: NotRequired[Literal["reduced", "full"]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]


class DraftedTools(TypedDict):
    created: list[str]
    refused: list[RefusedTool]


Edge = TypedDict(
    "Edge",
    {
        "from": str,
        "to": str,
        "kind": Literal["needs", "instead"],
    },
)


class Error(TypedDict):
    error: ErrorBody


class Evaluation(TypedDict):
    id: str
    version: int
    recall_at_5: float
    mrr: float
    warning: str
    ranks: list[Rank]
    created_at: str
    truncated: NotRequired[list[str]]


class Executed(TypedDict):
    execution: str | None
    status: str
    result: Any
    error: FunctionError | None
    printed: str
    wall_ms: float
    cpu_ms: float
    peak_kb: int
    isolation: str
    version: int | None
    cached: bool


class Execution(TypedDict):
    execution: str | None
    status: str
    result: Any
    error: FunctionError | None
    printed: str
    wall_ms: float
    cpu_ms: float
    peak_kb: int
    isolation: str
    version: int | None
    cached: bool
    arguments: dict[str, Any]
    run: str | None
    requests: list[dict[str, Any]]
    started_at: str
    truncated: NotRequired[list[str]]


class Feedback(TypedDict):
    rating: Literal["up", "down"]
    note: NotRequired[str]
    updated_at: str


class FeedbackRequest(TypedDict):
    rating: Literal["up", "down"]
    note: NotRequired[str]


class File(TypedDict):
    id: str
    name: str
    media_type: NotRequired[str]
    untrusted: NotRequired[bool]
    size: int
    sha256: str
    source: Literal["upload", "run", "skill"]
    created_at: str
    truncated: NotRequired[list[str]]


class FinishRequest(TypedDict):
    claim: str
    status: Literal["succeeded", "partial", "failed", "cancelled"]
    reply: NotRequired[str]
    output: NotRequired[Any]
    error: NotRequired[ErrorRequest]
    usage: NotRequired[SpentRequest]


class Firing(TypedDict):
    id: str
    key: str
    outcome: NotRequired[Literal["pending", "started", "refused"]]
    reason: NotRequired[str]
    run: str | None
    created_at: str
    truncated: NotRequired[list[str]]


class FoundMemory(TypedDict):
    id: str
    text: str
    kind: Literal["fact", "preference", "event"]
    subject: str
    valid_from: str | None
    valid_until: str | None
    scope: Literal["person", "person_agent", "agent", "team"]
    owner: str
    agent: str | None
    team: str | None
    source: Source
    untrusted: bool
    status: Literal["active", "suggested"]
    version: int
    replaces: str | None
    created_at: str
    updated_at: str
    because: str


class FoundPiece(TypedDict):
    document: FoundDocument
    place: FoundPlace
    text: str
    score: float


class Function(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    source: str
    description: NotRequired[str]
    entry: NotRequired[str]
    is_async: NotRequired[bool]
    requires_context: NotRequired[bool]
    safe_mode: NotRequired[bool]
    is_pure: NotRequired[bool]
    cache_ttl: NotRequired[int]
    effect: NotRequired[Literal["read", "read_out", "idempotent", "write", "sends_out", "destructive"]]
    timeout: NotRequired[float]
    memory_limit: NotRequired[int]
    max_concurrency: NotRequired[int]
    allowed_imports: NotRequired[list[str]]
    allowed_hosts: NotRequired[list[str]]
    secrets: NotRequired[list[str]]
    reuse: NotRequired[Literal["never", "run"]]
    min_isolation: NotRequired[Literal["reduced", "full"]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]
    requires: list[str]
    is_deprecated: NotRequired[bool]
    published_version: int | None
    refusals: list[dict[str, Any]]
    draft_sha256: str
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str


class FunctionRequest(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    source: str
    description: NotRequired[str]
    entry: NotRequired[str]
    is_async: NotRequired[bool]
    requires_context: NotRequired[bool]
    safe_mode: NotRequired[bool]
    is_pure: NotRequired[bool]
    cache_ttl: NotRequired[int]
    effect: NotRequired[Literal["read", "read_out", "idempotent", "write", "sends_out", "destructive"]]
    timeout: NotRequired[float]
    memory_limit: NotRequired[int]
    max_concurrency: NotRequired[int]
    allowed_imports: NotRequired[list[str]]
    allowed_hosts: NotRequired[list[str]]
    secrets: NotRequired[list[str]]
    reuse: NotRequired[Literal["never", "run"]]
    min_isolation: NotRequired[Literal["reduced", "full"]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]
    note: NotRequired[str]
    expected: NotRequired[str]
    is_deprecated: NotRequired[bool]
    team: NotRequired[str | None]


class FunctionSummary(TypedDict):
    name: str
    display_name: NotRequired[str]
    icon: NotRequired[str]
    description: NotRequired[str]
    effect: NotRequired[str]
    is_pure: NotRequired[bool]
    is_deprecated: NotRequired[bool]
    published_version: int | None
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class Grant(TypedDict):
    tool: str
    kind: str
    mode: NotRequired[Literal["allow", "ask", "deny"]]
    version: NotRequired[int | None]
    deadline_s: NotRequired[float | None]
    offline: NotRequired[Literal["fail", "wait", "any"]]
    context: NotRequired[list[dict[str, Any]]]
    allow_after_untrusted: NotRequired[bool]
    decides: NotRequired[Literal["starter", "owner", "team", "role"]]
    decider_role: NotRequired[str]
    not_starter: NotRequired[bool]
    truncated: NotRequired[list[str]]


class GrantRequest(TypedDict):
    tool: str
    mode: NotRequired[Literal["allow", "ask", "deny"]]
    version: NotRequired[int | None]
    deadline_s: NotRequired[float | None]
    offline: NotRequired[Literal["fail", "wait", "any"]]
    context: NotRequired[list[dict[str, Any]]]
    allow_after_untrusted: NotRequired[bool]
    decides: NotRequired[Literal["starter", "owner", "team", "role"]]
    decider_role: NotRequired[str]
    not_starter: NotRequired[bool]


class Graph(TypedDict):
    nodes: list[Node]
    edges: list[Edge]
    problems: list[Problem]


class Hook(TypedDict):
    id: str
    place: Literal["before_tool", "after_tool", "message_in", "message_out"]
    function: str
    scope: str
    agent: NotRequired[str | None]
    team: NotRequired[str | None]
    pinned_version: NotRequired[int | None]
    tools: NotRequired[list[str]]
    position: NotRequired[int]
    timeout_s: NotRequired[float]
    enabled: NotRequired[bool]
    created_by: str | None
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class HookEntry(TypedDict):
    when: Literal["message", "before_call", "after_call", "reply"]
    function: str
    pinned_version: NotRequired[int | None]
    tools: NotRequired[list[str]]
    position: NotRequired[int]
    timeout_s: NotRequired[float]
    enabled: NotRequired[bool]


class HookEntryRequest(TypedDict):
    when: Literal["message", "before_call", "after_call", "reply"]
    function: str
    pinned_version: NotRequired[int | None]
    tools: NotRequired[list[str]]
    position: NotRequired[int]
    timeout_s: NotRequired[float]
    enabled: NotRequired[bool]


class HookRequest(TypedDict):
    place: Literal["before_tool", "after_tool", "message_in", "message_out"]
    function: str
    agent: NotRequired[str | None]
    team: NotRequired[str | None]
    pinned_version: NotRequired[int | None]
    tools: NotRequired[list[str]]
    position: NotRequired[int]
    timeout_s: NotRequired[float]
    enabled: NotRequired[bool]


class InputAnswerRequest(TypedDict):
    value: NotRequired[Any]
    error: NotRequired[InputFailureRequest]
    decline: NotRequired[bool]


class InputRequest(TypedDict):
    id: str
    run: str
    call: str
    kind: Literal["form", "tool"]
    name: str
    prompt: NotRequired[str]
    schema: NotRequired[Any]
    arguments: NotRequired[Any]
    expires_at: str
    status: NotRequired[Literal["open", "answered", "declined", "expired", "void"]]
    value: NotRequired[Any]
    error: NotRequired[Any]
    answered_by: NotRequired[str | None]
    answered_at: NotRequired[str | None]
    created_at: str
    truncated: NotRequired[list[str]]


class IntervalField(TypedDict):
    every: int
    period: Literal["seconds", "minutes", "hours", "days"]


class Invitation(TypedDict):
    id: str
    team: str
    user: str
    role: NotRequired[Literal["viewer", "operator", "author", "administrator"]]
    invited_by: str
    status: Literal["open", "accepted", "declined", "withdrawn"]
    created_at: str
    answered_at: str | None
    truncated: NotRequired[list[str]]


class InvitationRequest(TypedDict):
    user: str
    role: NotRequired[Literal["viewer", "operator", "author", "administrator"]]


class Me(TypedDict):
    username: str
    email: str
    is_superuser: bool
    role: Literal["viewer", "operator", "author", "administrator"]
    scopes: list[str]
    key: str | None
    teams: list[MeTeam]


class Member(TypedDict):
    user: str
    role: NotRequired[Literal["viewer", "operator", "author", "administrator"]]


class MemberRequest(TypedDict):
    user: str
    role: NotRequired[Literal["viewer", "operator", "author", "administrator"]]


class Memory(TypedDict):
    id: str
    text: str
    kind: Literal["fact", "preference", "event"]
    subject: str
    valid_from: str | None
    valid_until: str | None
    scope: Literal["person", "person_agent", "agent", "team"]
    owner: str
    agent: str | None
    team: str | None
    source: Source
    untrusted: bool
    status: Literal["active", "suggested"]
    version: int
    replaces: str | None
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class MemoryVersion(TypedDict):
    number: int
    action: Literal["created", "changed", "approved", "forgotten", "rolled_back"]
    text: str
    kind: Literal["fact", "preference", "event"]
    subject: str
    valid_from: str | None
    valid_until: str | None
    untrusted: bool
    author: str
    is_agent: bool
    source: Source
    at: str
    truncated: NotRequired[list[str]]


class Message(TypedDict):
    id: str
    seq: int
    role: Literal["user", "assistant", "tool", "system"]
    content: NotRequired[Any]
    text: str
    tool_calls: NotRequired[Any]
    untrusted: NotRequired[bool]
    run: str | None
    created_at: str
    truncated: NotRequired[list[str]]


class NewMemoryRequest(TypedDict):
    text: str
    kind: NotRequired[Literal["fact", "preference", "event"]]
    subject: NotRequired[str]
    valid_from: NotRequired[str | None]
    valid_until: NotRequired[str | None]
    scope: NotRequired[Literal["person", "person_agent", "agent", "team"]]
    agent: NotRequired[str]
    team: NotRequired[str]


NewTestRequest: TypeAlias = FunctionTestRequest | TestFromRequest


class Occurrence(TypedDict):
    id: str
    due_at: str
    due_local: str
    start_at: str
    outcome: NotRequired[
        Literal[
            "due",
            "waiting_device",
            "waiting_overlap",
            "started",
            "succeeded",
            "failed",
            "skipped",
            "missed",
            "refused",
            "cancelled",
        ]
    ]
    reason: NotRequired[str]
    run: str | None
    is_manual: NotRequired[bool]
    count: NotRequired[int]
    attempts: NotRequired[int]
    settled_at: NotRequired[str | None]
    truncated: NotRequired[list[str]]


class Offer(TypedDict):
    name: str
    description: str
    input_schema: Any
    hash: str
    status: Literal["pending", "approved", "rejected"]
    is_offered: bool
    tool: str | None
    first_offered_at: str
    decided_at: str | None
    truncated: NotRequired[list[str]]


class OfferedTool(TypedDict):
    name: str
    description: str
    input_schema: Any
    effect: str
    mode: Literal["allow", "ask"]


class OfferedTools(TypedDict):
    results: list[OfferedTool]
    next: str | None


class Operation(TypedDict):
    name: str
    description: str
    effect: str
    state: Literal["new", "changed", "known", "refused"]
    reason: str


class Options(TypedDict):
    model: NotRequired[str | None]
    model_params: NotRequired[ModelParams | None]
    instructions: NotRequired[str | None]
    variables: NotRequired[dict[str, Any] | None]
    tool_policy: NotRequired[ToolPolicy | None]
    output_schema: NotRequired[dict[str, Any] | None]
    max_steps: NotRequired[int | None]
    budget: NotRequired[Most | None]
    priority: NotRequired[Literal["batch"] | None]


class OptionsRequest(TypedDict):
    model: NotRequired[str | None]
    model_params: NotRequired[ModelParamsRequest | None]
    instructions: NotRequired[str | None]
    variables: NotRequired[dict[str, Any] | None]
    tool_policy: NotRequired[ToolPolicyRequest | None]
    output_schema: NotRequired[dict[str, Any] | None]
    max_steps: NotRequired[int | None]
    budget: NotRequired[MostRequest | None]
    priority: NotRequired[Literal["batch"] | None]


class OwnFinishRequest(TypedDict):
    status: Literal["succeeded", "partial", "failed", "cancelled"]
    reply: NotRequired[str]
    output: NotRequired[Any]
    error: NotRequired[ErrorRequest]
    usage: NotRequired[SpentRequest]


class PaginatedApprovalList(TypedDict):
    results: list[Approval]
    next: str | None


class PaginatedBudgetList(TypedDict):
    results: list[Budget]
    next: str | None


class PaginatedCollectionList(TypedDict):
    results: list[Collection]
    next: str | None


class PaginatedConnectionList(TypedDict):
    results: list[Connection]
    next: str | None


class PaginatedDeliveryList(TypedDict):
    results: list[Delivery]
    next: str | None


class PaginatedDeviceCallList(TypedDict):
    results: list[DeviceCall]
    next: str | None


class PaginatedDocumentList(TypedDict):
    results: list[Document]
    next: str | None


class PaginatedEvaluationList(TypedDict):
    results: list[Evaluation]
    next: str | None


class PaginatedExecutionList(TypedDict):
    results: list[Execution]
    next: str | None


class PaginatedFileList(TypedDict):
    results: list[File]
    next: str | None


class PaginatedFiringList(TypedDict):
    results: list[Firing]
    next: str | None


class PaginatedFunctionSummaryList(TypedDict):
    results: list[FunctionSummary]
    next: str | None


class PaginatedGrantList(TypedDict):
    results: list[Grant]
    next: str | None


class PaginatedHookList(TypedDict):
    results: list[Hook]
    next: str | None


class PaginatedInputRequestList(TypedDict):
    results: list[InputRequest]
    next: str | None


class PaginatedInvitationList(TypedDict):
    results: list[Invitation]
    next: str | None


class PaginatedMemoryList(TypedDict):
    results: list[Memory]
    next: str | None


class PaginatedMemoryVersionList(TypedDict):
    results: list[MemoryVersion]
    next: str | None


class PaginatedMessageList(TypedDict):
    results: list[Message]
    next: str | None


class PaginatedOccurrenceList(TypedDict):
    results: list[Occurrence]
    next: str | None


class PaginatedOfferList(TypedDict):
    results: list[Offer]
    next: str | None


class PaginatedRemoteToolList(TypedDict):
    results: list[RemoteTool]
    next: str | None


class PaginatedSkillVersionList(TypedDict):
    results: list[SkillVersion]
    next: str | None


class PaginatedSubscriptionList(TypedDict):
    results: list[Subscription]
    next: str | None


class PaginatedVersionList(TypedDict):
    results: list[Version]
    next: str | None


class PaginatedWebhookList(TypedDict):
    results: list[Webhook]
    next: str | None


class PaginatedWorkerList(TypedDict):
    results: list[Worker]
    next: str | None


class Part(TypedDict):
    type: Literal["text", "image", "file"]
    text: NotRequired[str]


class PatchedAgentRequest(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    description: NotRequired[str]
    system_prompt: NotRequired[str]
    provider: NotRequired[str]
    model_name: NotRequired[str]
    model_params: NotRequired[ModelParamsRequest]
    fallback_models: NotRequired[list[str]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]
    variables: NotRequired[dict[str, dict[str, Any]]]
    capabilities: NotRequired[list[str]]
    examples: NotRequired[list[str]]
    delegates_to: NotRequired[list[str]]
    max_steps: NotRequired[int]
    timeout: NotRequired[float]
    max_chain_depth: NotRequired[int]
    max_agent_depth: NotRequired[int]
    session_context: NotRequired[Literal["none", "last_n", "summary"]]
    context_messages: NotRequired[int]
    context_tokens: NotRequired[int]
    memory: NotRequired[Literal["off", "suggest", "auto"]]
    memory_tokens: NotRequired[int]
    memory_summary: NotRequired[Literal["off", "suggest", "auto"]]
    pool: NotRequired[str]
    max_running: NotRequired[int | None]
    public_card: NotRequired[bool]
    a2a_reply: NotRequired[Literal["task", "message"]]
    enabled: NotRequired[bool]
    grants: NotRequired[list[GrantRequest]]
    hooks: NotRequired[list[HookEntryRequest]]
    team: NotRequired[str | None]


class PatchedChainRequest(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    description: NotRequired[str]
    strategy: NotRequired[Literal["graph", "sequential", "parallel", "router"]]
    session: NotRequired[Literal["step", "run"]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]
    output: NotRequired[str]
    max_chain_depth: NotRequired[int]
    max_parallel: NotRequired[int]
    timeout: NotRequired[float]
    pool: NotRequired[str]
    enabled: NotRequired[bool]
    steps: NotRequired[list[Step]]
    grants: NotRequired[list[GrantRequest]]
    team: NotRequired[str | None]


class PatchedConnectionRequest(TypedDict):
    name: NotRequired[str]
    provider: NotRequired[Literal["gmail", "outlook", "teams", "mcp", "openapi", "a2a"]]
    base_url: NotRequired[str]
    config: NotRequired[dict[str, Any]]
    secret_name: NotRequired[str]
    enabled: NotRequired[bool]
    team: NotRequired[str | None]


class PatchedFunctionRequest(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    source: NotRequired[str]
    description: NotRequired[str]
    entry: NotRequired[str]
    is_async: NotRequired[bool]
    requires_context: NotRequired[bool]
    safe_mode: NotRequired[bool]
    is_pure: NotRequired[bool]
    cache_ttl: NotRequired[int]
    effect: NotRequired[Literal["read", "read_out", "idempotent", "write", "sends_out", "destructive"]]
    timeout: NotRequired[float]
    memory_limit: NotRequired[int]
    max_concurrency: NotRequired[int]
    allowed_imports: NotRequired[list[str]]
    allowed_hosts: NotRequired[list[str]]
    secrets: NotRequired[list[str]]
    reuse: NotRequired[Literal["never", "run"]]
    min_isolation: NotRequired[Literal["reduced", "full"]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]
    note: NotRequired[str]
    expected: NotRequired[str]
    is_deprecated: NotRequired[bool]
    team: NotRequired[str | None]


class PatchedHookRequest(TypedDict):
    place: NotRequired[Literal["before_tool", "after_tool", "message_in", "message_out"]]
    function: NotRequired[str]
    agent: NotRequired[str | None]
    team: NotRequired[str | None]
    pinned_version: NotRequired[int | None]
    tools: NotRequired[list[str]]
    position: NotRequired[int]
    timeout_s: NotRequired[float]
    enabled: NotRequired[bool]


class PatchedPersonRequest(TypedDict):
    username: NotRequired[str]
    email: NotRequired[str]
    role: NotRequired[Literal["viewer", "operator", "author", "administrator"]]
    is_active: NotRequired[bool]


class PatchedProviderRequest(TypedDict):
    name: NotRequired[str]
    kind: NotRequired[Literal["openai", "anthropic", "google", "ollama", "openai-compatible", "offline"]]
    api_key: NotRequired[str]
    base_url: NotRequired[str]
    api: NotRequired[Literal["chat", "responses"]]
    tool_calling: NotRequired[Literal["native", "schema"]]
    thinking: NotRequired[Literal["split", "text"]]
    default_model: NotRequired[str]
    prices: NotRequired[dict[str, PriceRequest]]
    max_running: NotRequired[int | None]
    enabled: NotRequired[bool]
    team: NotRequired[str | None]


class PatchedScheduleRequest(TypedDict):
    name: NotRequired[str]
    description: NotRequired[str]
    agent: NotRequired[str | None]
    chain: NotRequired[str | None]
    text: NotRequired[str]
    input: NotRequired[Any]
    options: NotRequired[OptionsRequest]
    crontab: NotRequired[str | None]
    interval: NotRequired[IntervalFieldRequest | None]
    timezone: NotRequired[str]
    starts_at: NotRequired[str | None]
    ends_at: NotRequired[str | None]
    jitter_s: NotRequired[float]
    missed_policy: NotRequired[Literal["skip", "once", "all"]]
    missed_window_s: NotRequired[float]
    overlap_policy: NotRequired[Literal["skip", "queue", "cancel", "allow"]]
    wait_for_device: NotRequired[bool]
    device: NotRequired[str | None]
    pause_after_failures: NotRequired[int]
    notify_email: NotRequired[str]
    enabled: NotRequired[bool]
    at: NotRequired[str | None]
    team: NotRequired[str | None]


class PatchedSessionRequest(TypedDict):
    title: NotRequired[str]
    device: NotRequired[str | None]
    status: NotRequired[Literal["active", "closed"]]
    pinned: NotRequired[bool]
    folder: NotRequired[str]
    metadata: NotRequired[Any]


class PatchedTeamRequest(TypedDict):
    name: NotRequired[str]
    max_running: NotRequired[int | None]
    members: NotRequired[list[MemberRequest]]


class PatchedTriggerRequest(TypedDict):
    name: NotRequired[str]
    description: NotRequired[str]
    kind: NotRequired[Literal["webhook", "run_ended", "device_online"]]
    agent: NotRequired[str | None]
    chain: NotRequired[str | None]
    text: NotRequired[str]
    input: NotRequired[Any]
    options: NotRequired[OptionsRequest]
    replay_window_s: NotRequired[int]
    on_status: NotRequired[list[str]]
    on_agent: NotRequired[str | None]
    on_chain: NotRequired[str | None]
    device: NotRequired[str | None]
    cooldown_s: NotRequired[float]
    enabled: NotRequired[bool]
    team: NotRequired[str | None]


class PendingInput(TypedDict):
    id: str
    run: str
    kind: Literal["tool", "question", "approval"]
    name: str
    arguments: Any
    schema: Any
    text: str
    expires_at: str


class Person(TypedDict):
    username: str
    email: NotRequired[str]
    role: NotRequired[Literal["viewer", "operator", "author", "administrator"]]
    is_active: NotRequired[bool]
    is_superuser: bool
    is_invitable: bool
    teams: list[PersonTeam]
    last_login: str | None
    date_joined: str
    truncated: NotRequired[list[str]]


class PersonRequest(TypedDict):
    username: str
    email: NotRequired[str]
    role: NotRequired[Literal["viewer", "operator", "author", "administrator"]]
    is_active: NotRequired[bool]


class Piece(TypedDict):
    place: Place
    text: str
    truncated: NotRequired[list[str]]


class PlannedChange(TypedDict):
    verb: Literal["create", "change", "same"]
    kind: Literal["provider", "function", "skill", "collection", "tool", "agent", "chain"]
    name: str
    fields: list[str]


class PlannedChanges(TypedDict):
    changes: list[PlannedChange]


class PrepareRequest(TypedDict):
    model: NotRequired[str | None]
    model_params: NotRequired[ModelParamsRequest | None]
    instructions: NotRequired[str | None]
    variables: NotRequired[dict[str, Any] | None]
    tool_policy: NotRequired[ToolPolicyRequest | None]
    output_schema: NotRequired[dict[str, Any] | None]
    max_steps: NotRequired[int | None]
    budget: NotRequired[MostRequest | None]
    priority: NotRequired[Literal["batch"] | None]
    agent: str
    message: str
    input: NotRequired[Any]
    metadata: NotRequired[dict[str, Any]]
    timeout: NotRequired[float]
    session: NotRequired[str | None]
    device: NotRequired[str | None]
    context: NotRequired[list[ContextRequest]]


class Prompt(TypedDict):
    name: str
    description: NotRequired[str]
    text: str
    variables: list[str]
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class Provider(TypedDict):
    name: str
    kind: Literal["openai", "anthropic", "google", "ollama", "openai-compatible", "offline"]
    has_key: bool
    base_url: NotRequired[str]
    api: NotRequired[Literal["chat", "responses"]]
    tool_calling: NotRequired[Literal["native", "schema"]]
    thinking: NotRequired[Literal["split", "text"]]
    default_model: NotRequired[str]
    prices: NotRequired[dict[str, Price]]
    max_running: NotRequired[int | None]
    enabled: NotRequired[bool]
    state: Literal["off", "ready", "untested", "works", "failing"]
    tested_at: str | None
    test_code: str
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class ProviderRequest(TypedDict):
    name: str
    kind: Literal["openai", "anthropic", "google", "ollama", "openai-compatible", "offline"]
    api_key: NotRequired[str]
    base_url: NotRequired[str]
    api: NotRequired[Literal["chat", "responses"]]
    tool_calling: NotRequired[Literal["native", "schema"]]
    thinking: NotRequired[Literal["split", "text"]]
    default_model: NotRequired[str]
    prices: NotRequired[dict[str, PriceRequest]]
    max_running: NotRequired[int | None]
    enabled: NotRequired[bool]
    team: NotRequired[str | None]


class Record(TypedDict):
    id: str
    kind: str
    review: Literal["suggested", "approved", "rejected"]
    reason: str
    suggested_change: dict[str, Any] | None
    is_ai_suggested: bool
    untrusted: bool
    version: int
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class RecordChange(TypedDict):
    id: str
    at: str
    action: Literal["created", "changed", "suggested", "approved", "rejected"]
    version: int
    author: str
    is_agent: bool
    run: str | None
    call: str | None
    fields: dict[str, Any]
    note: str
    truncated: NotRequired[list[str]]


class ReplacedSkillRequest(TypedDict):
    text: str
    files: NotRequired[list[ReplacingFileRequest]]
    team: NotRequired[str | None]


class Replayed(TypedDict):
    version: int | None
    replayed: int
    same: int
    differing: list[Difference]


class Reply(TypedDict):
    role: str
    content: list[Part]
    text: str
    untrusted: bool
    finish: Literal["stop", "length", "content_filter"]


class Results(TypedDict):
    results: list[FoundPiece]
    not_searched: list[NotSearched]


class Run(TypedDict):
    id: str
    status: NotRequired[
        Literal["queued", "running", "waiting", "succeeded", "partial", "failed", "cancelled", "expired"]
    ]
    waiting_for: NotRequired[str]
    pending: list[PendingInput]
    pool: NotRequired[str]
    priority: Literal["person", "trigger", "schedule", "batch"]
    why_queued: str
    agent: NotRequired[str | None]
    agent_owner: str | None
    agent_version: NotRequired[int | None]
    chain: NotRequired[str | None]
    session: str | None
    parent: str | None
    root: str | None
    depth: NotRequired[int]
    trigger: NotRequired[
        Literal["message", "draft", "schedule", "event", "agent", "chain", "device", "manual", "external", "memory"]
    ]
    created_at: NotRequired[str]
    started_at: NotRequired[str | None]
    finished_at: NotRequired[str | None]
    deadline: NotRequired[str | None]
    input: Any
    options: dict[str, Any] | None
    output: Any
    error: RunError | None
    turns: NotRequired[int]
    usage: Usage
    counts: Counts
    metadata: NotRequired[Any]
    urls: RunUrls
    reply: NotRequired[Reply | None]
    truncated: NotRequired[list[str]]


class Schedule(TypedDict):
    name: str
    description: NotRequired[str]
    agent: NotRequired[str | None]
    chain: NotRequired[str | None]
    text: NotRequired[str]
    input: NotRequired[Any]
    options: NotRequired[Options]
    crontab: NotRequired[str | None]
    interval: NotRequired[IntervalField | None]
    timezone: NotRequired[str]
    starts_at: NotRequired[str | None]
    ends_at: NotRequired[str | None]
    jitter_s: NotRequired[float]
    missed_policy: NotRequired[Literal["skip", "once", "all"]]
    missed_window_s: NotRequired[float]
    overlap_policy: NotRequired[Literal["skip", "queue", "cancel", "allow"]]
    wait_for_device: NotRequired[bool]
    device: NotRequired[str | None]
    pause_after_failures: NotRequired[int]
    notify_email: NotRequired[str]
    enabled: NotRequired[bool]
    at: NotRequired[str | None]
    failures: int
    paused_reason: str
    next_due_at: str | None
    next_due_local: str | None
    last_due_at: str | None
    last_run_at: str | None
    timing_in_words: str
    why_not: str
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class ScheduleRequest(TypedDict):
    name: str
    description: NotRequired[str]
    agent: NotRequired[str | None]
    chain: NotRequired[str | None]
    text: NotRequired[str]
    input: NotRequired[Any]
    options: NotRequired[OptionsRequest]
    crontab: NotRequired[str | None]
    interval: NotRequired[IntervalFieldRequest | None]
    timezone: NotRequired[str]
    starts_at: NotRequired[str | None]
    ends_at: NotRequired[str | None]
    jitter_s: NotRequired[float]
    missed_policy: NotRequired[Literal["skip", "once", "all"]]
    missed_window_s: NotRequired[float]
    overlap_policy: NotRequired[Literal["skip", "queue", "cancel", "allow"]]
    wait_for_device: NotRequired[bool]
    device: NotRequired[str | None]
    pause_after_failures: NotRequired[int]
    notify_email: NotRequired[str]
    enabled: NotRequired[bool]
    at: NotRequired[str | None]
    team: NotRequired[str | None]


class Secret(TypedDict):
    name: str
    has_value: bool
    hosts: NotRequired[list[str]]
    header: NotRequired[str]
    template: NotRequired[str]
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class SendRequest(TypedDict):
    model: NotRequired[str | None]
    model_params: NotRequired[ModelParamsRequest | None]
    instructions: NotRequired[str | None]
    variables: NotRequired[dict[str, Any] | None]
    tool_policy: NotRequired[ToolPolicyRequest | None]
    output_schema: NotRequired[dict[str, Any] | None]
    max_steps: NotRequired[int | None]
    budget: NotRequired[MostRequest | None]
    priority: NotRequired[Literal["batch"] | None]
    message: str | list[dict[str, Any]]
    session: NotRequired[str | None]
    input: NotRequired[Any]
    metadata: NotRequired[dict[str, Any]]
    on_busy: NotRequired[Literal["reject", "enqueue", "interrupt"]]
    timeout: NotRequired[float]
    wait: NotRequired[float]
    device: NotRequired[str | None]
    parent: NotRequired[str | None]
    tools: NotRequired[list[CallerToolRequest]]
    version: NotRequired[int | None]
    draft: NotRequired[bool]


class Session(TypedDict):
    id: str
    title: NotRequired[str]
    agent: str | None
    device: NotRequired[str | None]
    parent: str | None
    depth: int
    status: NotRequired[Literal["active", "closed"]]
    pinned: NotRequired[bool]
    folder: NotRequired[str]
    forked_from: str | None
    forked_before: int | None
    variables: Any
    summary: str
    has_untrusted: bool
    metadata: NotRequired[Any]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class Skill(TypedDict):
    name: str
    description: str
    text: str
    files: list[SkillFile]
    published_version: int | None
    untrusted: bool
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str


class SkillSummary(TypedDict):
    name: str
    description: str
    published_version: int | None
    untrusted: bool
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class SkillUser(TypedDict):
    kind: Literal["agent", "chain"]
    name: str
    mode: str
    version: int | None


class SkillUsers(TypedDict):
    results: list[SkillUser]
    next: str | None


class StepRun(TypedDict):
    id: str
    key: str
    item: int
    status: NotRequired[
        Literal["ready", "running", "waiting", "succeeded", "partial", "failed", "skipped", "cancelled"]
    ]
    pinned: NotRequired[bool]
    child: str | None
    call: str | None
    attempt: NotRequired[int]
    repeat: NotRequired[int]
    total: NotRequired[int]
    done: NotRequired[int]
    failed: NotRequired[int]
    wake_at: NotRequired[str | None]
    input: Any
    output: Any
    error: Any
    started_at: NotRequired[str | None]
    finished_at: NotRequired[str | None]
    truncated: NotRequired[list[str]]


class Team(TypedDict):
    name: str
    max_running: NotRequired[int | None]
    members: NotRequired[list[Member]]
    created_at: str
    truncated: NotRequired[list[str]]


class TeamRequest(TypedDict):
    name: str
    max_running: NotRequired[int | None]
    members: NotRequired[list[MemberRequest]]


class Tool(TypedDict):
    name: str
    kind: Literal[
        "function", "connector", "device", "agent", "chain", "mcp", "http", "a2a", "knowledge", "skill", "builtin"
    ]
    description: NotRequired[str]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    effect: NotRequired[Literal["read", "read_out", "idempotent", "write", "sends_out", "destructive"]]
    enabled: NotRequired[bool]
    untrusted: NotRequired[bool]
    record_fields: NotRequired[Any]
    deadline_s: NotRequired[float]
    source: dict[str, Any]
    definition_hash: str
    owner: str | None
    team: str | None
    truncated: NotRequired[list[str]]


class ToolCall(TypedDict):
    id: str
    name: str
    kind: NotRequired[str]
    effect: NotRequired[str]
    arguments: NotRequired[Any]
    turn: NotRequired[int]
    parent_call: str | None
    attempt: NotRequired[int]
    outcome: NotRequired[Literal["ok", "failed", "denied", "unknown"] | Literal[""]]
    waiting_for: NotRequired[str]
    result: Any
    error: Any
    printed: NotRequired[str]
    untrusted: NotRequired[bool]
    details: NotRequired[Any]
    started_at: NotRequired[str | None]
    finished_at: NotRequired[str | None]
    wall_ms: NotRequired[float | None]
    truncated: NotRequired[list[str]]


class ToolMatch(TypedDict):
    tool: Tool
    score: float
    words: list[str]


class ToolMatches(TypedDict):
    method: Literal["words", "words and meaning"]
    results: list[ToolMatch]


class TrialResult(TypedDict):
    ok: bool
    code: str
    message: str
    hint: str
    models: int
    wall_ms: float
    abilities: list[Ability]


class Trigger(TypedDict):
    name: str
    description: NotRequired[str]
    kind: Literal["webhook", "run_ended", "device_online"]
    agent: NotRequired[str | None]
    chain: NotRequired[str | None]
    text: NotRequired[str]
    input: NotRequired[Any]
    options: NotRequired[Options]
    replay_window_s: NotRequired[int]
    on_status: NotRequired[list[str]]
    on_agent: NotRequired[str | None]
    on_chain: NotRequired[str | None]
    device: NotRequired[str | None]
    cooldown_s: NotRequired[float]
    enabled: NotRequired[bool]
    last_fired_at: str | None
    url: str | None
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class TriggerRequest(TypedDict):
    name: str
    description: NotRequired[str]
    kind: Literal["webhook", "run_ended", "device_online"]
    agent: NotRequired[str | None]
    chain: NotRequired[str | None]
    text: NotRequired[str]
    input: NotRequired[Any]
    options: NotRequired[OptionsRequest]
    replay_window_s: NotRequired[int]
    on_status: NotRequired[list[str]]
    on_agent: NotRequired[str | None]
    on_chain: NotRequired[str | None]
    device: NotRequired[str | None]
    cooldown_s: NotRequired[float]
    enabled: NotRequired[bool]
    team: NotRequired[str | None]


class UsedBy(TypedDict):
    results: list[User]
    next: str | None


class Work(TypedDict):
    lease_expires_at: str
    cancel_requested: bool
    run: Run
    messages: list[dict[str, Any]]
    output_schema: Any


class Agent(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    description: NotRequired[str]
    system_prompt: NotRequired[str]
    provider: str
    model_name: NotRequired[str]
    model_params: NotRequired[ModelParams]
    fallback_models: NotRequired[list[str]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]
    variables: NotRequired[dict[str, dict[str, Any]]]
    capabilities: NotRequired[list[str]]
    examples: NotRequired[list[str]]
    delegates_to: NotRequired[list[str]]
    max_steps: NotRequired[int]
    timeout: NotRequired[float]
    max_chain_depth: NotRequired[int]
    max_agent_depth: NotRequired[int]
    session_context: NotRequired[Literal["none", "last_n", "summary"]]
    context_messages: NotRequired[int]
    context_tokens: NotRequired[int]
    memory: NotRequired[Literal["off", "suggest", "auto"]]
    memory_tokens: NotRequired[int]
    memory_summary: NotRequired[Literal["off", "suggest", "auto"]]
    pool: NotRequired[str]
    max_running: NotRequired[int | None]
    public_card: NotRequired[bool]
    a2a_reply: NotRequired[Literal["task", "message"]]
    enabled: NotRequired[bool]
    grants: NotRequired[list[Grant]]
    hooks: NotRequired[list[HookEntry]]
    published_version: int | None
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class AgentRequest(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    description: NotRequired[str]
    system_prompt: NotRequired[str]
    provider: str
    model_name: NotRequired[str]
    model_params: NotRequired[ModelParamsRequest]
    fallback_models: NotRequired[list[str]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]
    variables: NotRequired[dict[str, dict[str, Any]]]
    capabilities: NotRequired[list[str]]
    examples: NotRequired[list[str]]
    delegates_to: NotRequired[list[str]]
    max_steps: NotRequired[int]
    timeout: NotRequired[float]
    max_chain_depth: NotRequired[int]
    max_agent_depth: NotRequired[int]
    session_context: NotRequired[Literal["none", "last_n", "summary"]]
    context_messages: NotRequired[int]
    context_tokens: NotRequired[int]
    memory: NotRequired[Literal["off", "suggest", "auto"]]
    memory_tokens: NotRequired[int]
    memory_summary: NotRequired[Literal["off", "suggest", "auto"]]
    pool: NotRequired[str]
    max_running: NotRequired[int | None]
    public_card: NotRequired[bool]
    a2a_reply: NotRequired[Literal["task", "message"]]
    enabled: NotRequired[bool]
    grants: NotRequired[list[GrantRequest]]
    hooks: NotRequired[list[HookEntryRequest]]
    team: NotRequired[str | None]


class Answer(TypedDict):
    run: Run
    session: str
    reply: Reply | None
    output: Any
    usage: Usage
    route: NotRequired[Route]


class Chain(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    description: NotRequired[str]
    strategy: NotRequired[Literal["graph", "sequential", "parallel", "router"]]
    session: NotRequired[Literal["step", "run"]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]
    output: NotRequired[str]
    max_chain_depth: NotRequired[int]
    max_parallel: NotRequired[int]
    timeout: NotRequired[float]
    pool: NotRequired[str]
    enabled: NotRequired[bool]
    steps: NotRequired[list[Step]]
    grants: NotRequired[list[Grant]]
    published_version: int | None
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    truncated: NotRequired[list[str]]


class ChainRequest(TypedDict):
    name: NotRequired[str]
    display_name: NotRequired[str]
    icon: NotRequired[str]
    description: NotRequired[str]
    strategy: NotRequired[Literal["graph", "sequential", "parallel", "router"]]
    session: NotRequired[Literal["step", "run"]]
    input_schema: NotRequired[dict[str, Any] | None]
    output_schema: NotRequired[dict[str, Any] | None]
    output: NotRequired[str]
    max_chain_depth: NotRequired[int]
    max_parallel: NotRequired[int]
    timeout: NotRequired[float]
    pool: NotRequired[str]
    enabled: NotRequired[bool]
    steps: NotRequired[list[Step]]
    grants: NotRequired[list[GrantRequest]]
    team: NotRequired[str | None]


class Claimed(TypedDict):
    claim: str
    lease_expires_at: str
    run: Run
    messages: list[dict[str, Any]]
    output_schema: Any


class ExportedMemory(TypedDict):
    memory: Memory
    versions: list[MemoryVersion]


class FoundList(TypedDict):
    results: list[FoundMemory]


class ImportPreview(TypedDict):
    base_url: str
    usable: int
    total: int
    operations: list[Operation]


class NewTrigger(TypedDict):
    name: str
    description: NotRequired[str]
    kind: Literal["webhook", "run_ended", "device_online"]
    agent: NotRequired[str | None]
    chain: NotRequired[str | None]
    text: NotRequired[str]
    input: NotRequired[Any]
    options: NotRequired[Options]
    replay_window_s: NotRequired[int]
    on_status: NotRequired[list[str]]
    on_agent: NotRequired[str | None]
    on_chain: NotRequired[str | None]
    device: NotRequired[str | None]
    cooldown_s: NotRequired[float]
    enabled: NotRequired[bool]
    last_fired_at: str | None
    url: str | None
    owner: str | None
    team: NotRequired[str | None]
    warnings: list[Warning]
    created_at: str
    updated_at: str
    secret: str


class PaginatedAgentList(TypedDict):
    results: list[Agent]
    next: str | None


class PaginatedChainList(TypedDict):
    results: list[Chain]
    next: str | None


class PaginatedPersonList(TypedDict):
    results: list[Person]
    next: str | None


class PaginatedPieceList(TypedDict):
    results: list[Piece]
    next: str | None


class PaginatedPromptList(TypedDict):
    results: list[Prompt]
    next: str | None


class PaginatedProviderList(TypedDict):
    results: list[Provider]
    next: str | None


class PaginatedRecordChangeList(TypedDict):
    results: list[RecordChange]
    next: str | None


class PaginatedRecordList(TypedDict):
    results: list[Record]
    next: str | None


class PaginatedRunList(TypedDict):
    results: list[Run]
    next: str | None


class PaginatedScheduleList(TypedDict):
    results: list[Schedule]
    next: str | None


class PaginatedSecretList(TypedDict):
    results: list[Secret]
    next: str | None


class PaginatedSessionList(TypedDict):
    results: list[Session]
    next: str | None


class PaginatedSkillSummaryList(TypedDict):
    results: list[SkillSummary]
    next: str | None


class PaginatedStepRunList(TypedDict):
    results: list[StepRun]
    next: str | None


class PaginatedTeamList(TypedDict):
    results: list[Team]
    next: str | None


class PaginatedToolCallList(TypedDict):
    results: list[ToolCall]
    next: str | None


class PaginatedToolList(TypedDict):
    results: list[Tool]
    next: str | None


class PaginatedTriggerList(TypedDict):
    results: list[Trigger]
    next: str | None


class Export(TypedDict):
    results: list[ExportedMemory]
