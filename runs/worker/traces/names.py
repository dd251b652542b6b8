"""OpenTelemetry's names for generative AI. They are still in development: they stand here alone.

https://opentelemetry.io/docs/specs/semconv/gen-ai/ (1.38)
"""

OPERATION = "gen_ai.operation.name"
INVOKE_AGENT, INVOKE_WORKFLOW, CHAT, EXECUTE_TOOL = "invoke_agent", "invoke_workflow", "chat", "execute_tool"
PROVIDER = "gen_ai.provider.name"
AGENT_ID, AGENT_NAME = "gen_ai.agent.id", "gen_ai.agent.name"
WORKFLOW_NAME = "gen_ai.workflow.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL, RESPONSE_MODEL = "gen_ai.request.model", "gen_ai.response.model"
INPUT_TOKENS, OUTPUT_TOKENS = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TOOL_NAME, TOOL_CALL, TOOL_TYPE = "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type"
TOOL_ARGUMENTS, TOOL_RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
INPUT_MESSAGES, OUTPUT_MESSAGES = "gen_ai.input.messages", "gen_ai.output.messages"
# Without a name of OpenTelemetry. Programs add up the tokens of all spans, so those of a run have another name.
RUN_INPUT_TOKENS, RUN_OUTPUT_TOKENS = "muster.input_tokens", "muster.output_tokens"
SPAN_KIND = "openinference.span.kind"  # of Phoenix, which knows no workflows
USER, ERROR = "user.id", "error.type"

DURATION = "gen_ai.client.operation.duration"  # histogram, seconds
TOKENS = "gen_ai.client.token.usage"  # histogram, tokens
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105  (input or output)

# Kinds of providers (agents/models/provider.py) whose name there is another one.
PROVIDERS = {"google": "gcp.gemini", "openai-compatible": "openai"}
# Kinds of tools that another machine or service executes; others are functions.
EXTENSIONS = ("device", "connector", "mcp", "openapi", "a2a")
