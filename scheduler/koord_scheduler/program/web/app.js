// Asks the scheduler every few seconds and shows what it says. Names of pods and nodes are
// somebody else's: they are only ever set as text.

import { chart, clock, element } from "./charts.js";
import { ask, bar, by, bytes, cores, count, fill, heads, keepFresh, lasting, offerTheme, percent, tile, whole } from "./page.js";

const NOTHING_YET = "Nothing in the last ten minutes.";

async function refresh() {
  try {
    const found = await ask("v1/overview");
    showHead(found);
    showTiles(found);
    showRates(found.rates);
    showClasses("parked", found.classes.parked, true);
    showClasses("active", found.classes.active, false);
    showGangs(found.gangs);
    showHistogram("cpu", "CPU requested", found.nodes, (value) => `${whole(value / 1000)} cores`);
    showHistogram("memory", "Memory requested", found.nodes, (value) => bytes(value, true));
    showNodes("fullest", found.nodes.fullest);
    showNodes("emptiest", found.nodes.emptiest);
    showProblems([found.paused && `no decisions: ${found.paused}`, ...found.problems]);
  } catch (error) {
    showProblems([`No news from the scheduler since ${clock(Date.now() / 1000, true)} (${error.message}); what is shown is older.`]);
  }
}

function rate(value) {
  return value === null || value === undefined ? "–" : value < 10 ? String(Number(value.toFixed(1))) : whole(value);
}

function milliseconds(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const value = seconds * 1000;
  return `${Number(value.toFixed(value < 1 ? 2 : value < 10 ? 1 : 0))} ms`;
}

function showHead(found) {
  by("role").textContent = found.paused ? "paused" : found.leads ? "leads" : "stands by";
  by("role").className = `badge ${found.paused ? "degraded" : found.leads ? "ok" : "muted"}`;
  by("identity").textContent = found.leads || !found.leader ? found.identity : `"${found.leader}" leads`;
  document.title = `${by("role").textContent} · koord-scheduler`;
}

function showProblems(lines) {
  const known = lines.filter(Boolean);
  by("problem").replaceChildren(...known.map((line) => element("div", {}, line)));
  by("problem").hidden = !known.length;
}

function showTiles(found) {
  const { pending, rates: { minute }, nodes } = found;
  const waiting = Object.values(pending).reduce((sum, one) => sum + one, 0);
  const share = (one) => (one.allocatable ? one.requested / one.allocatable : 0);
  const [cpu, memory] = [share(nodes.cpu), share(nodes.memory)];
  const bindings = found.unsent_bindings ? `${count(found.unsent_bindings, "binding")} on the way` : "no binding on the way";
  const lost = found.dropped_reports ? `, ${count(found.dropped_reports, "report")} dropped` : "";
  const repaired = found.repaired_nodes ? `, ${count(found.repaired_nodes, "node")} repaired` : "";
  by("tiles").replaceChildren(
    tile("Pods waiting", whole(waiting), "", null,
      `${whole(pending.active)} active, ${whole(pending.backoff)} backoff, ${whole(pending.unschedulable)} unschedulable, ${whole(pending.gated)} gated`),
    tile("Pods bound", rate(minute.bound ?? null), "a second", null, `in the last minute; ${bindings}${lost}`),
    tile("A decision takes", milliseconds(minute.p50), "at the median", null, `99 of 100 up to ${milliseconds(minute.p99)}`),
    tile("Nodes", whole(nodes.nodes), nodes.unschedulable ? `${whole(nodes.unschedulable)} cordoned` : "", bar(Math.max(cpu, memory), 0.95),
      `requested: ${percent(cpu * 100, 0)} of CPU, ${percent(memory * 100, 0)} of memory${repaired}`));
}

function showRates(rates) {
  chart(by("bound"), {
    title: "Pods bound", unit: "a second", times: rates.times, stacks: [], limits: [], least: 1, empty: NOTHING_YET,
    lines: [{ name: "accent", label: "bound", values: rates.bound }], format: rate,
  });
  const milli = (values) => values.map((one) => (one === null ? null : one * 1000));
  chart(by("latency"), {
    title: "A decision takes", unit: "ms", times: rates.times, stacks: [], limits: [], least: 0.1, empty: NOTHING_YET,
    lines: [{ name: "accent", label: "median", values: milli(rates.p50) }, { name: "warn", label: "99 of 100", values: milli(rates.p99) }],
    format: (value, exact) => (exact ? milliseconds(value / 1000) : cores(value)),
  });
}

function showClasses(name, found, reasons) {
  const left = found.classes - found.largest.length;
  by(`${name}-note`).textContent = found.classes
    ? `${count(found.pods, "pod")} in ${count(found.classes, "class")}${left ? `; the ${found.largest.length} largest` : ""}` : "none";
  const columns = [["Like", "words"], ["Pods"], ["Priority"], ["For"], ["Each requests", "words"]];
  const head = element("tr", {}, ...columns.map(([title, kind = ""]) => element("th", { class: kind, scope: "col" }, title)));
  fill(by(name), found.classes ? head : null, found.largest.flatMap((one) => [
    element("tr", { class: reasons ? "explained" : "" }, element("td", { class: "words" }, one.like), element("td", {}, whole(one.pods)),
      element("td", {}, String(one.priority)), element("td", {}, lasting(one.waiting_seconds)),
      element("td", { class: "words" }, one.asks || "nothing")),
    ...(reasons ? [element("tr", {}, element("td", { class: "words wrap muted", colspan: columns.length }, one.reason))] : []),
  ]));
}

function showGangs(found) {
  by("gangs-note").textContent = found.gangs ? `${whole(found.waiting)} of ${count(found.gangs, "gang")}` : "there are no gangs";
  fill(by("gangs"), found.waiting ? heads(["Gang"], ["Waiting", "Bound", "Needs"], ["Why"]) : null, found.largest.map((one) => element("tr", {},
    element("td", { class: "words" }, one.name), element("td", {}, whole(one.waiting)), element("td", {}, whole(one.bound)),
    element("td", {}, whole(one.min)), element("td", { class: "words wrap muted" }, one.why))));
}

function showHistogram(name, title, nodes, format) {
  const { histogram, requested, allocatable } = nodes[name], most = Math.max(...histogram, 1);
  const columns = histogram.map((number, i) => {
    const fill = element("i");
    fill.style.height = `${(number / most) * 100}%`;
    const label = `${count(number, "node")}: ${i * 10} % ${i < 9 ? `to ${i * 10 + 10} %` : "and more"}`;
    return element("div", { class: "column", title: label, "aria-label": label, role: "img" },
      element("b", {}, number ? whole(number) : ""), element("div", {}, fill), element("span", {}, `${i * 10}`));
  });
  by(name).replaceChildren(
    element("div", { class: "title" }, element("h2", {}, title), element("span", { class: "muted" }, `${format(requested)} of ${format(allocatable)}; nodes by percent requested`)),
    nodes.nodes ? element("div", { class: "histogram" }, ...columns) : element("div", { class: "empty" }, "No nodes are known."));
}

function showNodes(name, nodes) {
  const head = nodes.length ? heads(["Node"], ["CPU", "free", "Memory", "free", "Pods"]) : null;
  const share = (part) => element("td", { class: part > 0.95 ? "hot" : "" }, percent(part * 100, 0));
  fill(by(name), head, nodes.map((one) => element("tr", {}, element("td", { class: "words" }, one.node),
    share(one.cpu), element("td", { class: "muted" }, cores(one.free_cpu / 1000, true)),
    share(one.memory), element("td", { class: "muted" }, bytes(one.free_memory, true)), element("td", {}, String(one.pods)))));
}

offerTheme("koord-scheduler-theme");
await keepFresh(refresh);
