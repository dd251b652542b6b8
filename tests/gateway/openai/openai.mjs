// What OpenAI's JavaScript SDK and the AI SDK get from Muster, as JSON. Arguments: folder of the packages, base URL, key.
import { createRequire } from "node:module";

const [folder, baseURL, apiKey] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const { default: OpenAI, toFile } = load("openai");
const { generateText, streamText, jsonSchema, stepCountIs, tool } = load("ai");
const { createOpenResponses } = load("@ai-sdk/open-responses");
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const found = {};
const user = (content) => [{ role: "user", content }];
const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = { name: "weather", description: "The weather of a city", parameters: city };

// models, chat completions
found.models = (await client.models.list()).data.some((model) => model.id === "plain");
const chat = await client.chat.completions.create({ model: "plain", messages: user("hello") });
found.chat = [chat.choices[0].message.content, chat.choices[0].finish_reason, chat.usage.total_tokens];
const pieces = await client.chat.completions.create({
  model: "plain", messages: user("count"), stream: true, stream_options: { include_usage: true },
});
let text = "";
for await (const chunk of pieces) {
  text += chunk.choices[0]?.delta?.content ?? "";
  found.streamed = [text, chunk.usage?.total_tokens];
}
const tools = [{ type: "function", function: weather }];
const asking = await client.chat.completions.create({ model: "plain", messages: user("weather?"), tools });
const [call] = asking.choices[0].message.tool_calls;
const result = { role: "tool", tool_call_id: call.id, content: "rain" };
const messages = [...user("weather?"), asking.choices[0].message, result];
const told = await client.chat.completions.create({ model: "plain", messages, tools });
found.caller = [call.function.name, call.function.arguments, told.choices[0].message.content];

// responses
const stream = client.responses.stream({ model: "clerk", input: "6 * 7?" });
const events = new Set();
for await (const event of stream) events.add(event.type);
const response = await stream.finalResponse();
const [made] = response.output;
found.items = response.output.map((item) => item.type);
found.output = made.output;
found.events = ["response.mcp_call_arguments.done", "response.output_text.delta"].every((name) => events.has(name));
const next = await client.responses.create({ model: "clerk", input: "Sure?", previous_response_id: response.id });
found.next = [next.output_text, next.previous_response_id === response.id, next.usage.total_tokens];
const own = [{ type: "function", strict: false, ...weather }];
const first = await client.responses.create({ model: "plain", input: "weather?", tools: own });
const answer = { type: "function_call_output", call_id: first.output[0].call_id, output: "sun" };
found.called = (await client.responses.create({ model: "plain", input: [answer], previous_response_id: first.id, tools: own })).output_text;
const schema = { type: "object", properties: { colour: { type: "string" } }, required: ["colour"], additionalProperties: false };
const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const file = await client.files.create({ file: await toFile(Buffer.from("heron"), "word.txt"), purpose: "user_data" });
const parsed = await client.responses.parse({
  model: "plain",
  input: user([
    { type: "input_text", text: "which?" },
    { type: "input_image", image_url: pixel, detail: "auto" },
    { type: "input_file", file_id: file.id },
  ]),
  text: { format: { type: "json_schema", name: "colour", schema, strict: true } },
});
found.parsed = parsed.output_parsed;
found.deleted = (await client.files.delete(file.id)).deleted;
found.errors = [
  await client.chat.completions.create({ model: "nobody", messages: user("hi") }).catch((error) => [error.status, error.code]),
  await client.responses.create({ model: "plain", input: "hi", max_tool_calls: 1 }).catch((error) => [error.status, error.param]),
  await new OpenAI({ baseURL, apiKey: "mk_no.no", maxRetries: 0 }).models.list().catch((error) => error.status),
];

// the AI SDK
const muster = createOpenResponses({ name: "muster", url: `${baseURL}/responses`, apiKey });
const generated = await generateText({ model: muster("plain"), prompt: "hello", maxRetries: 0 });
found.generated = [generated.text, generated.finishReason, generated.usage.totalTokens];
const flowing = streamText({ model: muster("plain"), prompt: "count", maxRetries: 0 });
found.flowing = "";
for await (const piece of flowing.textStream) found.flowing += piece;
const asked = await generateText({
  model: muster("plain"), prompt: "weather?", maxRetries: 0, stopWhen: stepCountIs(3),
  tools: { weather: tool({ description: "The weather", inputSchema: jsonSchema(city), execute: async ({ city }) => `hail in ${city}` }) },
});
found.tool = [asked.text, asked.steps.length];
const agent = await generateText({ model: muster("clerk"), prompt: "6 * 7?", maxRetries: 0 });
found.agent = agent.text;

// last, because nobody knows whether its model was asked
const background = await client.responses.create({ model: "plain", input: "slow", background: true });
await client.responses.cancel(background.id);
while (["queued", "in_progress"].includes((found.cancelled = (await client.responses.retrieve(background.id)).status)));
console.log(JSON.stringify(found));
