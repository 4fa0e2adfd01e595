// Asks the manager every few seconds for the cluster, and through it scheduler and descheduler.
// Names of nodes, pods and quotas are somebody else's: they are only ever set as text.

import { clock, element } from "./charts.js";
import { HeatMap, stepOf } from "./heat_map.js";
import { ask, bar, by, bytes, cores, count, fill, heads, keepFresh, lasting, offerTheme, percent, tile, whole } from "./page.js";

const MEASURES = {
  cpu: { name: "CPU", what: "Share of CPU used" },
  memory: { name: "Memory", what: "Share of memory used" },
  batch_offered: { name: "Batch offered", what: "Share of CPU offered to batch pods" },
  batch_used: { name: "Batch used", what: "Share of CPU used by batch pods" },
  devices: { name: "Devices", what: "Share of devices requested" },
};
const ORDERS = { name: "By name", value: "By value" };
const MIB = 1 << 20, HIGHEST = 10;

const state = { measure: "cpu", order: "name", filter: "", nodes: null, devices: null };
const map = new HeatMap(by("heat"), describe);

async function refresh() {
  const [cluster, scheduler, descheduler] = await Promise.allSettled(["v1/cluster", "v1/scheduler", "v1/descheduler"].map(ask));
  const problems = [];
  if (cluster.status === "fulfilled") {
    showCluster(cluster.value);
    problems.push(...cluster.value.problems);
  } else {
    problems.push(`No news from the manager since ${clock(Date.now() / 1000, true)} (${cluster.reason.message}); what is shown is older.`);
  }
  showScheduler(answer(scheduler));
  showDescheduler(answer(descheduler));
  by("problem").replaceChildren(...problems.map((line) => element("div", {}, line)));
  by("problem").hidden = !problems.length;
  showNodes();
}

// What a neighbour's leader says, by path, or why that is not known.
function answer(settled) {
  if (settled.status !== "fulfilled") return { reason: settled.reason.message, pages: {} };
  const found = settled.value;
  const overview = found.pages["/v1/overview"];
  return overview && !overview.leads ? { ...found, reason: `nobody leads${overview.leader ? ` but "${overview.leader}"` : ""}` } : found;
}

function showCluster(found) {
  by("role").textContent = found.leads ? "leads" : "stands by";
  by("role").className = `badge ${found.leads ? "ok" : "muted"}`;
  by("identity").textContent = found.identity;
  document.title = `Cluster · ${found.leads ? "koord-manager" : "a manager that stands by"}`;
  for (const id of ["tiles", "nodes", "quota", "rollout"]) by(id).hidden = !found.leads;
  by("elsewhere").hidden = found.leads;
  if (!found.leads) showElsewhere(found);
  if (!("quotas" in found)) return;
  state.nodes = found.nodes;
  if (found.nodes) found.nodes.closed = new Set(found.nodes.closed);
  showTiles(found);
  showQuotas(found.quotas);
  showRollouts(found.rollouts);
  showEvictions(found);
  by("nodes-note").textContent = nodesNote(found);
}

// Behind the API server's proxy the leader is beside this manager; otherwise it has an address.
function showElsewhere(found) {
  const [own, leader] = [found.identity, found.leader].map((name) => name.replace(/_[^_]*$/, ""));
  const { pathname } = location;
  const behind = pathname.includes(`/${own}:`) || pathname.includes(`/http:${own}:`);
  const at = !leader ? "" : behind ? pathname.replace(`${own}:`, `${leader}:`) : found.leader_address && `http://${found.leader_address}/`;
  by("elsewhere").replaceChildren(element("p", {}, leader ? `The manager ${leader} leads and knows the cluster. ` : "No manager leads at present.",
    ...(at ? [element("a", { href: at }, "Open its page")] : [])),
    ...(leader && !behind ? [element("p", { class: "muted" }, "From outside the cluster: ", element("code", {}, `kubectl port-forward -n NAMESPACE pod/${leader} 8080`))] : []));
}

function nodesNote(found) {
  if (!found.nodes) return "the controller noderesource is off: nothing is known of what nodes use";
  const { count: all, names } = found.nodes;
  return (names.length < all ? `the first ${whole(names.length)} of ${whole(all)} by name` : whole(all)) + (found.complete ? "" : "; nodes are still being read");
}

function showTiles(found) {
  if (!found.nodes) return by("tiles").replaceChildren();
  const { sums, closed, cpu, count: all } = found.nodes, silent = cpu.filter((value) => value < 0).length;
  const share = (part, whole_) => (whole_ ? part / whole_ : 0);
  const amount = (name, kind) => (kind === "cpu" ? `${whole(sums[name].cpu / 1000)} cores` : bytes(sums[name].memory * MIB, true));
  const used = (title, kind) => tile(title, percent(share(sums.used[kind], sums.capacity[kind]) * 100, 0), "used", bar(share(sums.used[kind], sums.capacity[kind]), 0.95),
    `${amount("used", kind)} of ${amount("capacity", kind)}`);
  const backstop = found.backstop ? `; ${count(found.backstop.unhealthy, "unhealthy node")}${found.backstop.is_stopped ? ", evictions stopped" : ""}` : "";
  by("tiles").replaceChildren(
    tile("Nodes", whole(all), "", null, `${whole(closed.size)} take no pods, ${whole(silent)} without a recent report${backstop}`),
    used("CPU", "cpu"), used("Memory", "memory"),
    tile("Batch", amount("batch_offered", "cpu"), "offered", bar(share(sums.batch_used.cpu, sums.batch_offered.cpu), 2),
      `${amount("batch_used", "cpu")} used by batch pods; memory: ${amount("batch_offered", "memory")}, ${amount("batch_used", "memory")}`));
}

// ---- nodes

function valuesOf(measure) {
  const { nodes, devices } = state;
  if (measure !== "devices") return nodes[measure];
  return nodes.names.map((name) => devices?.[name] ?? -1);
}

function showNodes() {
  choice("measures", MEASURES, "measure", (one) => one.name);
  choice("orders", ORDERS, "order", (one) => one);
  if (!state.nodes) return;
  const { names, closed } = state.nodes, values = valuesOf(state.measure);
  const places = names.map((_, i) => i), falling = [...places].sort((a, b) => values[b] - values[a] || a - b);
  map.show(state.order === "name" ? places : falling, values, closed, MEASURES[state.measure].what);
  const found = falling.filter((place) => names[place].includes(state.filter)), shown = found.slice(0, HIGHEST);
  by("shown").textContent = found.length > shown.length ? `${shown.length} of ${whole(found.length)}` : whole(found.length);
  fill(by("highest"), heads(["Node"], Object.values(MEASURES).map((one) => one.name)), shown.map((place) => element("tr", {},
    element("td", { class: "words" }, names[place], ...(closed.has(place) ? [element("span", { class: "muted" }, " takes no pods")] : [])),
    ...Object.keys(MEASURES).map((name) => share(valuesOf(name)[place])))));
}

function share(value) {
  if (value < 0) return element("td", { class: "muted" }, "–");
  return element("td", {}, element("span", { class: "swatch", ink: `heat-${stepOf(value)}` }), percent(value, 0));
}

function describe(place) {
  const { names, closed, capacity_cpu: cpu, capacity_memory: memory } = state.nodes;
  const numbers = Object.entries(MEASURES).map(([name, one]) => [one.name, valuesOf(name)[place]]).filter(([, value]) => value >= 0)
    .map(([name, value]) => `${name} ${percent(value, 0)}`);
  const text = [`${names[place]}${closed.has(place) ? ", takes no pods" : ""}`, ...(numbers.length ? numbers : ["nothing is known"])].join(", ");
  return { text, parts: [element("b", {}, names[place]), ` ${cores(cpu[place] / 1000)} cores, ${bytes(memory[place] * MIB, true)}${closed.has(place) ? ", takes no pods" : ""}: ${numbers.join(", ") || "nothing is known"}. `,
    element("a", { href: `v1/why?node=${encodeURIComponent(names[place])}` }, "Why it offers that")] };
}

function choice(id, choices, key, name) {
  by(id).replaceChildren(...Object.entries(choices).map(([value, one]) => element("button", {
    type: "button", "aria-pressed": String(state[key] === value),
    onclick: () => { state[key] = value; showNodes(); },
  }, name(one))));
}

// ---- what scheduler and descheduler say

function showScheduler({ reason, pages }) {
  const found = pages["/v1/overview"];
  state.devices = pages["/v1/devices"]?.nodes ?? null;
  const classes = found ? [found.classes.parked, found.classes.active] : [];
  const pods = classes.reduce((sum, one) => sum + one.pods, 0), kinds = classes.reduce((sum, one) => sum + one.classes, 0);
  by("pending-note").textContent = reason || (found.paused ? `no decisions: ${found.paused}` : pods ? `${count(pods, "pod")} in ${count(kinds, "class")}` : "none");
  const rows = classes.flatMap((one) => one.largest).sort((a, b) => b.pods - a.pods);
  fill(by("pending"), rows.length ? heads(["Like"], ["Pods", "Priority", "For"], ["Each requests", "Why"]) : null, rows.map((one) => element("tr", {},
    words(one.like), cell(whole(one.pods)), cell(String(one.priority)), cell(lasting(one.waiting_seconds)), words(one.asks || "nothing"), words(one.reason || "not tried yet", "wrap muted"))));
  const gangs = found?.gangs;
  by("gangs-note").textContent = reason || (gangs?.gangs ? `${whole(gangs.waiting)} of ${count(gangs.gangs, "gang")}` : "there are no gangs");
  fill(by("gangs"), gangs?.waiting ? heads(["Gang"], ["Waiting", "Bound", "Needs"], ["Why"]) : null, (gangs?.largest ?? []).map((one) => element("tr", {},
    words(one.name), cell(whole(one.waiting)), cell(whole(one.bound)), cell(whole(one.min)), words(one.why, "wrap muted"))));
}

function showDescheduler({ reason, pages }) {
  const found = pages["/v1/overview"], results = found?.results ?? [], plan = found?.plan;
  by("moved-note").textContent = reason || `by the descheduler: ${whole(found.under_way)} under way${found.dry_run ? "; it only plans (dry run)" : ""}${results.length ? "; the last" : ""}`;
  fill(by("moved"), results.length ? heads(["Pod", "From", "To", "Plugin", "Result", "Why"], ["When"]) : null, results.map((one) => element("tr", {},
    words(one.pod), words(one.from), words(one.to || "any"), words(one.plugin), words(one.result), words(one.why || one.reason, "wrap muted"), cell(clock(Date.parse(one.at) / 1000, true)))));
  by("plan-note").textContent = reason || found.obstacle || (plan ? `${count(plan.moves, "move")} at ${clock(Date.parse(plan.at) / 1000, true)}, ${count(plan.refusals, "pod")} ${plan.refusals === 1 ? "stays" : "stay"}` : "no round was planned yet");
  fill(by("plan"), plan?.first.length ? heads(["Pod", "From", "To", "Plugin", "Why"], []) : null, (plan?.first ?? []).map((one) => element("tr", {},
    words(one.pod), words(one.from), words(one.to || "any"), words(one.plugin), words(one.reason, "wrap muted"))));
  const rules = Object.entries(plan?.refused ?? {});
  by("refused").textContent = rules.length ? `Pods that stay, by rule: ${rules.map(([rule, number]) => `${rule} ${whole(number)}`).join(", ")}` : "";
}

function words(text, more = "") {
  return element("td", { class: `words ${more}` }, text);
}

function cell(...parts) {
  return element("td", {}, ...parts);
}

// ---- quotas and rollouts

function showQuotas({ quotas, rows }) {
  by("quotas-note").textContent = rows.length < quotas ? `the first ${whole(rows.length)} of ${whole(quotas)}` : quotas ? whole(quotas) : "there are no ElasticQuotas";
  fill(by("quotas"), rows.length ? heads(["Quota", "Resource"], ["Used", "May use", "Min", "Max", "Lends", "Borrows"]) : null, rows.flatMap(quotaRows));
}

function quotaRows({ name, depth, resources }) {
  const title = (text) => {
    const made = words(text);
    made.style.setProperty("--depth", String(depth));
    made.classList.add("nested");
    return made;
  };
  if (!resources.length) return [element("tr", {}, title(name), words("no limits"), ...Array.from({ length: 6 }, () => cell("–")))];
  return resources.map((one, i) => {
    const write = (value) => (value === null ? "–" : one.resource === "cpu" ? cores(value / 1000) : one.resource.includes("memory") ? bytes(value, true) : whole(value));
    const limit = one.runtime ?? one.max;
    return element("tr", { class: i ? "more" : "" }, title(i ? "" : name), words(one.resource), cell(write(one.used), ...(limit ? [bar(one.used / limit, 1)] : [])), cell(write(one.runtime)),
      cell(write(one.min)), cell(write(one.max)), cell(one.lends ? write(one.lends) : "–"), element("td", { class: one.borrows ? "warn" : "" }, one.borrows ? write(one.borrows) : "–"));
  });
}

function showEvictions({ node_evictions: nodes, backstop }) {
  const most = (nodes?.most ?? []).map(([name, number]) => `${name} ${whole(number)}`);
  const results = Object.entries(backstop?.evictions ?? {}).map(([result, number]) => `${result} ${whole(number)}`);
  by("evicted").textContent = [
    nodes && `By koordlets since these started: ${whole(nodes.total)}${most.length ? `, most on ${most.join(", ")}` : ""}.`,
    results.length && `By the manager, off unhealthy nodes: ${results.join(", ")}.`,
  ].filter(Boolean).join(" ");
}

function showRollouts(entries) {
  by("rollouts-note").textContent = entries === null ? "not followed: the gate RolloutGuard is off" : entries.length ? whole(entries.length) : "no entry has a name";
  fill(by("rollouts"), entries?.length ? heads(["Entry", "Version", "Canary"], ["Nodes", "Applied", "Failed"], ["State"]) : null, (entries ?? []).map((one) => element("tr", {},
    words(one.entry), words(one.version), words(one.canary || "all nodes"), cell(whole(one.wanted)), cell(whole(one.applied)),
    element("td", { class: one.failed ? "hot" : "" }, whole(one.failed)),
    words(one.paused ? `paused ${one.paused}` : one.problem || (one.applied < one.wanted ? "under way" : "applied"), `wrap ${one.paused ? "warn" : "muted"}`))));
}

by("filter").addEventListener("input", (event) => { state.filter = event.target.value; showNodes(); });
offerTheme("koord-manager-theme");
await keepFresh(refresh);
