// The run page follows its run: each event fetches the changed part anew and keeps open what was open.
import { localise } from "./page.js";
import { sitePath } from "./site.js";

const live = /** @type {HTMLElement} */ (document.getElementById("live"));
const isDone = () => /** @type {HTMLElement | null} */ (live.firstElementChild)?.dataset.done === "yes";

function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) { target.open = true; target.scrollIntoView({ block: "center" }); }
}

async function refresh() {
  const response = await fetch("?part=live", { headers: { Accept: "text/html" } });
  if (!response.ok) return;
  const open = new Set([...live.querySelectorAll("details[open]")].map((one) => one.id));
  const focused = document.activeElement?.closest("details")?.id;
  live.innerHTML = await response.text();
  for (const one of live.querySelectorAll("details")) if (open.has(one.id)) one.open = true;
  if (focused) document.getElementById(focused)?.querySelector("summary")?.focus({ preventScroll: true });
  localise(live);
  if (isDone()) location.reload();
}

function follow() {
  const source = new EventSource(sitePath(`/api/v1/runs/${live.dataset.run}/stream?after=${live.dataset.after}`));
  let waiting = 0;
  const soon = () => { waiting ||= setTimeout(async () => { waiting = 0; await refresh(); }, 250); };
  const types = ["run.started", "run.waiting", "run.resumed", "run.recovered", "run.routed", "model.finished", "model.failed",
    "tool.called", "tool.denied", "tool.finished", "artifact.created", "approval.requested", "approval.decided", "child.started",
    "child.finished", "step.started", "step.finished", "step.waiting", "chain.progress"];
  for (const type of types) source.addEventListener(type, soon);
  source.addEventListener("run.finished", () => { source.close(); soon(); });
}

addEventListener("hashchange", openTarget);
openTarget();
// The event stream is for the run's own person; an administrator's page looks again instead.
function poll() {
  const look = async () => {
    await refresh().catch(() => {}); // the server is away for a moment
    if (!isDone()) setTimeout(look, 2000);
  };
  setTimeout(look, 2000);
}

if (live.dataset.done === "no") (live.dataset.mine === "yes" ? follow : poll)();
