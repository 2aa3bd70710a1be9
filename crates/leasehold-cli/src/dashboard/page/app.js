// The page of `leasehold dashboard`: reads the stream of the server, and shows it. Every text of a lock reaches the document
// by `textContent`, so a hostile name stays a text.

const PAGE = 500;
const $ = (id) => document.getElementById(id);

const locks = new Map();
let sources = {};
let serverNow = 0; // the server's clock, in unix milliseconds, at `receivedAt`
let receivedAt = 0; // by this browser's monotonic clock
let mayRelease = false;
let isFrozen = false;
let isPending = false;
let shows = PAGE;
let view = "locks";
let sort = "wait";
let onlyWarnings = false;
let focused = null;
let opened = null;

function token() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem("token") ?? "";
}
const authorization = { Authorization: `Bearer ${token()}` };

// ---- words ----

function duration(ms) {
  if (ms === null || ms === undefined) return "";
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.floor(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

const now = () => serverNow + (performance.now() - receivedAt);
const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

function holderName(holder) {
  const process = holder.process;
  if (process) return `${process.name}@${process.host}:${process.pid}`;
  if (holder.form === "foreign") return `another library's "${holder.owner}"`;
  const [client, number] = holder.owner.split(":");
  return number === undefined ? holder.owner : `${client.slice(0, 8)}.. thread ${number}`;
}

function age(holder) {
  if (holder.since === null) return null;
  return Math.max(0, now() - holder.since);
}

const longestHold = (lock) => Math.max(0, ...lock.holders.map((holder) => age(holder) ?? 0));
const longestWait = (lock) => (lock.waiting.since === null ? 0 : Math.max(0, now() - lock.waiting.since));

function leaseText(holder) {
  if (holder.ends === null) return holder.lease_ms === null ? "no end" : "";
  if (holder.renewed) return "renewed";
  return duration(Math.max(0, holder.ends - now()));
}

function held(lock) {
  const holder = lock.holders[0];
  if (!holder) {
    if (lock.permits) return `${lock.permits.taken ?? "?"} of ${lock.permits.total ?? "?"} taken`;
    if (lock.value !== null) return `value ${lock.value}`;
    return lock.count === null ? "free" : `count ${lock.count}`;
  }
  const more = lock.holders_total > 1 ? ` and ${lock.holders_total - 1} more` : "";
  return holderName(holder) + more;
}

// ---- the document ----

function waiters({ tasks, queued, clients }) {
  const known = Math.max(tasks ?? 0, queued ?? 0);
  if (known) return known.toLocaleString("en");
  return clients ? count(clients, "client") : "";
}

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function warningsOf(lock) {
  const cell = element("td", null, { "data-label": "Warnings" });
  for (const { name, text } of lock.warnings) cell.append(element("span", name, { class: "warning", title: text }));
  return cell;
}

function cell(label, text, kind = "") {
  return element("td", text, { "data-label": label, class: kind });
}

function rowOf(lock) {
  const row = element("tr", null, { tabindex: "-1", "data-key": lock.key });
  const oldest = lock.holders[0];
  const heldFor = longestHold(lock);
  const isLeast = oldest?.age_is === "at_least";
  row.append(
    cell("Name", lock.name, "name"),
    cell("Kind", lock.kind, "faint"),
    cell("Holder", held(lock)),
    cell("Held", heldFor ? (isLeast ? "≥ " : "") + duration(heldFor) : "", "number"),
    cell("Lease", oldest ? leaseText(oldest) : "", "number"),
    cell("Waiting", waiters(lock.waiting), "number"),
    cell("Longest", longestWait(lock) ? duration(longestWait(lock)) : "", "number"),
    cell("Note", oldest?.note ?? "", "faint"),
    warningsOf(lock),
  );
  if (lock.isNew) row.classList.add("changed");
  lock.isNew = false;
  return row;
}

function matches(lock, words) {
  if (onlyWarnings && lock.warnings.length === 0) return false;
  if (!words) return true;
  const text = [lock.name, lock.kind, ...lock.holders.flatMap((holder) => [holderName(holder), holder.note ?? ""])];
  return text.join("\n").toLowerCase().includes(words);
}

const ORDERS = {
  wait: (a, b) => longestWait(b) - longestWait(a) || longestHold(b) - longestHold(a),
  held: (a, b) => longestHold(b) - longestHold(a),
  name: (a, b) => (a.name < b.name ? -1 : 1),
};

function render() {
  if (isFrozen) return void (isPending = true);
  isPending = false;
  $("locks").hidden = view !== "locks";
  $("clients").hidden = view !== "clients";
  if (view === "locks") renderLocks();
  else renderClients();
  renderSummary();
}

function renderLocks() {
  const words = $("filter").value.trim().toLowerCase();
  const rows = [...locks.values()].filter((lock) => matches(lock, words)).sort(ORDERS[sort]);
  const body = document.createDocumentFragment();
  for (const lock of rows.slice(0, shows)) body.append(rowOf(lock));
  replaceRows($("locks"), body);
  for (const header of $("locks").querySelectorAll("th[data-sort]")) {
    if (header.dataset.sort === sort) header.setAttribute("aria-sort", sort === "name" ? "ascending" : "descending");
    else header.removeAttribute("aria-sort");
  }
  $("more").hidden = rows.length <= shows;
  $("more").textContent = `Show ${Math.min(PAGE, rows.length - shows)} more of ${rows.length.toLocaleString("en")}`;
  showEmpty(rows.length === 0, locks.size ? "No lock matches." : "Nothing is held or waited for.");
}

function renderClients() {
  const body = document.createDocumentFragment();
  const { silent = [], ended = [], living = [] } = sources.clients ?? {};
  const clients = [...silent, ...ended, ...living];
  for (const client of clients) {
    const row = element("tr", null, { tabindex: "-1", "data-key": client.client });
    const { name, host, pid, labels } = client.process;
    const version = labels.find(([label]) => label === "version")?.[1];
    row.append(
      cell("Name", name, "name"),
      cell("Host", host),
      cell("Process", String(pid), "number"),
      cell("Version", version ?? ""),
      cell("Holds", client.holds === null ? "" : String(client.holds), "number"),
      cell("Waits", client.waits === null ? "" : String(client.waits), "number"),
      cell("State", silent.includes(client) ? "silent" : ended.includes(client) ? "ended" : "answers"),
    );
    body.append(row);
  }
  replaceRows($("clients"), body);
  $("more").hidden = true;
  showEmpty(clients.length === 0, "No client is known.");
}

function showEmpty(isEmpty, text) {
  $("empty").hidden = !isEmpty;
  $("empty").textContent = text;
}

// Replaces the rows, and leaves the focus where it was.
function replaceRows(table, body) {
  const hadFocus = table.contains(document.activeElement) && document.activeElement.dataset.key !== undefined;
  table.tBodies[0].replaceChildren(body);
  const rows = rowsShown();
  const row = rows.find((row) => row.dataset.key === focused) ?? rows[0];
  if (!row) return;
  row.tabIndex = 0;
  if (hadFocus) row.focus({ preventScroll: true });
}

let said = "";
function renderSummary() {
  const all = [...locks.values()];
  const heldNow = all.filter((lock) => lock.holders.length > 0).length;
  const waited = all.filter((lock) => waiters(lock.waiting)).length;
  const warned = all.filter((lock) => lock.warnings.length > 0).length;
  const text = `${count(heldNow, "lock")} held, ${waited.toLocaleString("en")} waited for, ${count(warned, "warning")}`;
  // A screen reader reads each change aloud.
  if (text !== said) $("summary").textContent = said = text;
  $("missing").textContent = missing();
}

function missing() {
  const parts = [];
  const { asked, answered, silent = [], living = [] } = sources.clients ?? {};
  const names = silent.map(({ process }) => `${process.name}@${process.host}:${process.pid}`);
  if (silent.length) parts.push(`${answered} of ${asked} clients answered; silent: ${names.join(", ")}`);
  const holds = living.reduce((sum, client) => sum + (client.holds ?? 0), 0);
  const shown = [...locks.values()].reduce((sum, lock) => sum + lock.holders.length, 0);
  if (holds > shown) parts.push(`${(holds - shown).toLocaleString("en")} shorter holds are not shown`);
  if (sources.scan === null) parts.push("without a scan, holds of Java that nobody waits for are missing");
  return parts.join(". ");
}

// ---- details ----

async function open(key) {
  const lock = locks.get(key);
  if (!lock) return;
  opened = { key, owner: lock.holders.length === 1 ? lock.holders[0].owner : null, name: lock.name };
  $("detail-title").textContent = lock.name;
  $("detail-body").replaceChildren(element("p", "Asking the server and the clients"));
  $("detail-status").textContent = "";
  $("release").hidden = true;
  $("release-name").value = "";
  $("release-button").disabled = true;
  if (!$("detail").open) $("detail").showModal();
  try {
    const response = await fetch(`/api/1/object?name=${encodeURIComponent(lock.name)}`, { headers: authorization });
    if (!response.ok) throw new Error(await response.text());
    showDetail(await response.json());
  } catch (error) {
    $("detail-body").replaceChildren(element("p", `Not shown: ${error.message}`));
  }
}

function showDetail({ object, report }) {
  if (!object) return void $("detail-body").replaceChildren(element("pre", report));
  const list = element("dl");
  const add = (name, value) => value && list.append(element("dt", name), element("dd", value));
  add("Kind", object.kind);
  add("Key", object.key);
  add("Node", object.node);
  for (const holder of object.holders) {
    add("Holder", `${holderName(holder)}${holder.note ? ` (${holder.note})` : ""}`);
    add("Owner", holder.owner);
    add("Token", holder.token === null ? "" : String(holder.token));
  }
  add("Waiting", object.waiting.clients ? `${count(object.waiting.clients, "client")}` : "");
  const parts = [list];
  const queue = object.waiting.queue ?? [];
  if (queue.length) {
    parts.push(element("h3", "Queue"));
    const order = element("ol");
    for (const place of queue) order.append(element("li", place.owner));
    parts.push(order);
  }
  parts.push(element("h3", "Report"), element("pre", report));
  $("detail-body").replaceChildren(...parts);
  opened.owner = object.holders.length === 1 ? object.holders[0].owner : null;
  $("release").hidden = !(mayRelease && opened.owner);
}

$("release-name").addEventListener("input", () => {
  $("release-button").disabled = $("release-name").value !== opened?.name;
});
$("release").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { name, owner } = opened;
  $("release-button").disabled = true;
  const response = await fetch("/api/1/release", {
    method: "POST",
    headers: { ...authorization, "Content-Type": "application/json" },
    body: JSON.stringify({ name, owner }),
  });
  const text = response.ok ? (await response.json()).outcome : `Refused: ${await response.text()}`;
  $("detail-status").textContent = text;
});
for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
$("detail").addEventListener("close", () => focusRow(opened?.key));

// ---- keys and tools ----

const rowsShown = () => [...$(view).tBodies[0].rows];

function focusRow(key) {
  const rows = rowsShown();
  const row = rows.find((row) => row.dataset.key === key) ?? rows[0];
  if (!row) return;
  for (const other of rows) other.tabIndex = -1;
  row.tabIndex = 0;
  focused = row.dataset.key;
  row.focus();
}

function move(step) {
  const rows = rowsShown();
  const at = rows.findIndex((row) => row.dataset.key === focused);
  const isInside = rows[at] === document.activeElement;
  const next = isInside ? Math.min(rows.length - 1, Math.max(0, at + step)) : Math.max(0, at);
  focusRow(rows[next]?.dataset.key);
}

function setPressed(id, isPressed) {
  $(id).setAttribute("aria-pressed", String(isPressed));
}

const actions = {
  warnings() {
    setPressed("warnings", (onlyWarnings = !onlyWarnings));
    render();
  },
  freeze() {
    setPressed("freeze", (isFrozen = !isFrozen));
    if (isFrozen) link("frozen", "frozen");
    else link("live", "live");
    if (!isFrozen && isPending) render();
  },
  view() {
    view = view === "locks" ? "clients" : "locks";
    setPressed("view", view === "clients");
    focused = null;
    render();
  },
  sort() {
    const orders = Object.keys(ORDERS);
    $("sort").value = sort = orders[(orders.indexOf(sort) + 1) % orders.length];
    render();
  },
  help: () => $("help").showModal(),
};

const KEYS = {
  j: () => move(1),
  ArrowDown: () => move(1),
  k: () => move(-1),
  ArrowUp: () => move(-1),
  g: () => focusRow(rowsShown()[0]?.dataset.key),
  G: () => focusRow(rowsShown().at(-1)?.dataset.key),
  "/": () => $("filter").focus(),
  s: actions.sort,
  w: actions.warnings,
  c: actions.view,
  " ": actions.freeze,
  "?": actions.help,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const target = event.target;
  if (event.key === "Escape" && target === $("filter")) return void target.blur();
  if (target.matches("input, select") || (target.matches("button") && [" ", "Enter"].includes(event.key))) return;
  if (event.key === "Enter" && view === "locks" && target.dataset.key) {
    // Else the same key would press the button that has the focus in the dialog.
    event.preventDefault();
    return void open(target.dataset.key);
  }
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
$("locks").addEventListener("click", (event) => {
  const header = event.target.closest("th[data-sort]");
  if (header) {
    $("sort").value = sort = header.dataset.sort;
    return void render();
  }
  const row = event.target.closest("tbody tr");
  if (row) {
    focusRow(row.dataset.key);
    open(row.dataset.key);
  }
});
$("locks").addEventListener("focusin", (event) => {
  if (event.target.dataset.key) focused = event.target.dataset.key;
});
$("filter").addEventListener("input", () => {
  shows = PAGE;
  render();
});
$("sort").addEventListener("change", () => {
  sort = $("sort").value;
  render();
});
$("tools").addEventListener("submit", (event) => event.preventDefault());
$("warnings").addEventListener("click", actions.warnings);
$("freeze").addEventListener("click", actions.freeze);
$("view").addEventListener("click", actions.view);
$("help-button").addEventListener("click", actions.help);
$("more").addEventListener("click", () => {
  shows += PAGE;
  render();
});

// ---- the stream ----

function link(state, text) {
  $("link").dataset.state = state;
  $("link").textContent = text;
}

// Turns ages into begins and ends, which stay as they are while nothing changes.
function placed(object, at, isNew) {
  const holders = object.holders.map((holder) => ({
    ...holder,
    since: holder.age_ms === null ? null : at - holder.age_ms,
    ends: holder.lease_ms === null ? null : at + holder.lease_ms,
  }));
  const waiting = object.waiting;
  const since = waiting.longest_ms === null || waiting.longest_ms === undefined ? null : at - waiting.longest_ms;
  return { ...object, holders, waiting: { ...waiting, since }, isNew };
}

function take(message) {
  const at = message.at_ms;
  serverNow = at;
  receivedAt = performance.now();
  if (message.whole) {
    locks.clear();
    mayRelease = message.may_release;
    $("server").textContent = message.server;
  }
  for (const key of message.gone) locks.delete(key);
  for (const object of message.objects) locks.set(object.key, placed(object, at, !message.whole));
  sources = message.sources ?? sources;
  if (!isFrozen) link(message.problem ? "lost" : "live", message.problem ?? "live");
  render();
}

async function follow() {
  const response = await fetch("/api/1/events", { headers: authorization, cache: "no-store" });
  if (!response.ok) throw new Error(response.status === 401 ? "the token is wrong: open the URL that the command has printed" : await response.text());
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the stream has ended");
    text += value;
    const messages = text.split("\n\n");
    text = messages.pop();
    for (const message of messages) {
      if (message.startsWith("data: ")) take(JSON.parse(message.slice(6)));
    }
  }
}

async function run() {
  for (let pause = 1000; ; pause = Math.min(pause * 2, 30000)) {
    const began = performance.now();
    try {
      await follow();
    } catch (error) {
      link("lost", error.message || "no connection");
    }
    if (performance.now() - began > 60000) pause = 1000;
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

setInterval(() => {
  if (!document.hidden && !document.querySelector("dialog[open]")) render();
}, 1000);
run();
