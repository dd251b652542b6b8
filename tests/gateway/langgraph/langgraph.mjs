// What LangGraph's JavaScript SDK gets from Muster, as JSON. Arguments: folder of the package, base URL, key.
import { createRequire } from "node:module";

const [folder, apiUrl, apiKey] = process.argv.slice(2);
const { Client } = createRequire(`${folder}/`)("@langchain/langgraph-sdk");
const client = new Client({ apiUrl, apiKey, callerOptions: { maxRetries: 0 } });
const human = (text) => ({ messages: [{ type: "human", content: text }] });
const found = {};

const [assistant] = await client.assistants.search({ graphId: "careful" });
found.assistant = (await client.assistants.get(assistant.assistant_id)).name;
found.nodes = (await client.assistants.getGraph("careful")).nodes.map((node) => node.id);
found.schemas = Object.keys(await client.assistants.getSchemas("careful"));

const thread = await client.threads.create({ metadata: { from: "js" } });
let created;
found.events = [];
const stream = client.runs.stream(thread.thread_id, "careful", {
  input: human("1 + 1?"), streamMode: ["values", "messages-tuple"], streamResumable: true, streamSubgraphs: true,
  onRunCreated: (run) => (created = run),
});
for await (const { event, data } of stream) {
  if (!found.events.includes(event)) found.events.push(event);
  if (data?.__interrupt__) found.interrupt = data.__interrupt__[0].value.action_requests[0].args;
}
found.created = created.thread_id === thread.thread_id && Boolean(created.run_id);
found.status = (await client.threads.get(thread.thread_id)).status;
found.next = (await client.threads.getState(thread.thread_id)).next;

const resumed = await client.runs.wait(thread.thread_id, "careful", {
  command: { resume: { decisions: [{ type: "approve" }] } },
});
found.reply = resumed.messages.at(-1).content;
found.history = (await client.threads.getHistory(thread.thread_id, { limit: 2 })).length;
found.copy = (await client.threads.copy(thread.thread_id)).values.messages.length;
found.run = (await client.runs.get(thread.thread_id, created.run_id)).status;
found.runs = (await client.runs.list(thread.thread_id)).length;
found.cancelled = (await client.runs.cancel(thread.thread_id, created.run_id))?.status;
found.threads = (await client.threads.search({ metadata: { from: "js" } })).map((one) => one.thread_id === thread.thread_id);
const [batch] = await client.runs.createBatch([{ assistantId: "plain", input: human("hi") }]);
found.batch = (await client.runs.join(batch.thread_id, batch.run_id)).messages.at(-1).content;
const joined = [];
for await (const { event } of client.runs.joinStream(batch.thread_id, batch.run_id, { streamMode: ["updates"] })) {
  joined.push(event);
}
found.joined = joined;
const cron = await client.crons.create("plain", { schedule: "0 9 * * 1", input: human("Good morning"), enabled: false });
found.cron = (await client.crons.search({ assistantId: "plain" })).map((one) => one.schedule);
await client.crons.delete(cron.cron_id);
found.refused = await client.threads.get("nothing").catch((error) => String(error.message));
await client.threads.delete(thread.thread_id);
console.log(JSON.stringify(found));
