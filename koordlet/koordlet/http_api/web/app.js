// Asks koordlet every few seconds and shows what it says. Names of pods are somebody
// else's: they are only ever set as text.

import { chart, clock, element } from "./charts.js";
import { ask, bar, by, bytes, cores, fill, heads, keepFresh, offerTheme, percent, tile } from "./page.js";

const WINDOWS = { "15 min": [900, 10], "1 h": [3600, 20], "6 h": [21600, 120], "12 h": [43200, 240] };
const LABELS = { system: "system", host: "host applications", ended: "ended pods" };
const MOST_SHOWN = 30;

const state = { window: "15 min", sort: "cpu", down: true, filter: "", open: new Set(), unfolded: new Set(), top: null, why: null };

async function refresh() {
  const [window, step] = WINDOWS[state.window];
  const times = `window=${window}&step=${step}`;
  try {
    const [top, node, health, cpu, memory, psi] = await Promise.all([
      ask("v1/top"), ask("v1/node"), ask("healthz"),
      ask(`v1/usage?resource=cpu&${times}`), ask(`v1/usage?resource=memory&${times}`),
      ask(`v1/metrics/query?kind=node_psi&psi_precision=avg10&psi_degree=some&points=1&window=${window}&step=${Math.max(step, 10)}`),
    ]);
    state.top = top;
    showHead(node, health);
    showTiles(top);
    usageChart(by("cpu"), "CPU by class", "cores", cpu, cores, 2);
    usageChart(by("memory"), "Memory by class", "", memory, bytes, 2);
    psiChart(psi);
    showPods();
    showCollectors(node);
    await refreshDecisions();
    by("problem").hidden = true;
  } catch (error) {
    by("problem").textContent = `No news from koordlet since ${clock(Date.now() / 1000, true)} (${error.message}); what is shown is older.`;
    by("problem").hidden = false;
  }
}

function showHead(node, health) {
  by("node").textContent = node.node || "this node";
  by("read-only").hidden = !node.read_only;
  by("dry-run").hidden = !node.dry_run;
  document.title = `${node.node || "node"} · koordlet`;
  by("health").textContent = health.status;
  by("health").className = `badge ${health.status}`;
  by("health").title = health.reasons.join("\n");
}

function showTiles(top) {
  const { node } = top, tiles = [];
  for (const [name, key, format] of [["CPU", "cpu", cores], ["Memory", "memory", bytes]]) {
    const used = node[key], all = node.capacity[key];
    const known = used !== null && all;
    const asked = top.classes.reduce((sum, one) => sum + (one[`${key}_request`] ?? 0), 0);
    tiles.push(tile(name, format(used, true), all ? `of ${format(all)}${key === "cpu" ? " cores" : ""}` : "",
      known ? bar(used / all, 0.95) : null,
      known ? `${percent((used / all) * 100, 0)} used, ${percent((asked / all) * 100, 0)} requested` : "not measured yet"));
  }
  const psi = Object.fromEntries(["cpu", "memory", "io"].map((name) => [name, node.psi[name]?.some ?? null]));
  tiles.push(tile("Pressure on CPU", percent(psi.cpu), "of the time",
    psi.cpu === null ? null : bar(psi.cpu / 100, 0.5),
    `memory ${percent(psi.memory)}, IO ${percent(psi.io)}`));
  const classes = top.classes.map((one) => `${one.pods} ${one.qos}`).join(", ");
  tiles.push(tile("Pods", String(top.pods.length), "on this node", null, classes));
  by("tiles").replaceChildren(...tiles);
}

function usageChart(figure, title, unit, usage, format, base) {
  const stacks = Object.entries(usage.classes).map(([name, values]) => ({ name, label: LABELS[name] ?? name, values }));
  const peaks = Object.entries(usage.peaks).slice(0, 4);
  const limits = peaks.map(([name, value]) => ({ label: `predicted peak, ${name}`, value, kind: "peak" }));
  const whole = usage.capacity === null ? [] : [{ label: "capacity", value: usage.capacity, kind: "limit" }];
  chart(figure, {
    title, unit: whole.length ? `of ${format(usage.capacity)}${unit ? ` ${unit}` : ""}` : unit,
    times: usage.times, stacks, lines: [], limits: [...limits, ...whole], format, base,
    least: 0.1, empty: "Nothing measured in this time yet.",
  });
}

function psiChart(found) {
  const names = { cpu: ["psi-cpu", "CPU"], mem: ["psi-memory", "memory"], io: ["psi-io", "IO"] };
  const lines = found.series.filter((one) => one.labels.psi_resource in names).map((one) => {
    const [name, label] = names[one.labels.psi_resource];
    return { name, label, values: one.points };
  });
  chart(by("psi"), {
    title: "Pressure", unit: "percent of the time in which some task waited",
    times: found.times, stacks: [], lines, limits: [], wide: true, least: 1,
    format: (value, exact) => (exact ? percent(value) : `${cores(value)} %`),
    empty: "Pressure is not measured here: see collector psi below.",
  });
}

const COLUMNS = [
  { key: "name", name: "Pod", words: true, value: (one) => `${one.namespace}/${one.name}` },
  { key: "qos", name: "Class", words: true, value: (one) => one.qos },
  { key: "cpu", name: "CPU, cores", value: (one) => one.cpu },
  { key: "memory", name: "Memory", value: (one) => one.memory },
  { key: "throttled", name: "Throttled", value: (one) => one.throttled },
  { key: "psi_cpu", name: "PSI CPU", value: (one) => one.psi_cpu },
  { key: "psi_memory", name: "PSI memory", value: (one) => one.psi_memory },
  { key: "psi_io", name: "PSI IO", value: (one) => one.psi_io },
];

// Columns of what is shown where it is measured; what is above `hot` stands out.
const DELAYS = [
  { key: "sched_wait", name: "Waits for CPU", unit: "ms/s", hot: 300 },
  { key: "memory_delay", name: "for memory", unit: "ms/s", hot: 20 },
  { key: "disk_wait", name: "for disk", unit: "ms", hot: 5 },
  { key: "tcp_rtt", name: "RTT", unit: "ms", hot: 5 },
  { key: "tcp_retransmits", name: "Resent", unit: "%", hot: 2, scale: 100 },
].map((one) => ({ ...one, value: (row) => (row[one.key] ?? null) === null ? null : row[one.key] * (one.scale ?? 1) }));

function columns() {
  const pods = state.top?.pods ?? [];
  return [...COLUMNS, ...DELAYS.filter((one) => pods.some((pod) => one.value(pod) !== null))];
}

function sorted(pods) {
  const { value } = [...COLUMNS, ...DELAYS].find((column) => column.key === state.sort);
  const direction = state.down ? -1 : 1;
  return [...pods].sort((a, b) => {
    const [first, second] = [value(a) ?? null, value(b) ?? null];
    // What is not known comes last either way.
    if (first === null || second === null) return (first === null) - (second === null);
    if (first === second) return a.uid < b.uid ? -1 : 1;
    return (first < second ? -1 : 1) * direction;
  });
}

function showPods() {
  const head = element("tr", {}, ...columns().map((column) => {
    const order = column.key === state.sort ? (state.down ? "descending" : "ascending") : false;
    const choose = () => {
      state.down = column.key === state.sort ? !state.down : !column.words;
      state.sort = column.key;
      showPods();
    };
    return element("th", { class: column.words ? "words" : "", "aria-sort": order, scope: "col" },
      element("button", { type: "button", onclick: choose }, column.name));
  }));
  const words = state.filter.toLowerCase();
  const all = state.top?.pods ?? [];
  const pods = sorted(all.filter((one) => `${one.namespace}/${one.name} ${one.qos}`.toLowerCase().includes(words)));
  by("shown").textContent = pods.length === all.length ? `${all.length}` : `${pods.length} of ${all.length}`;
  const rows = pods.flatMap(podRows);
  fill(by("pods"), head, rows.length ? rows : [emptyRow(all.length)]);
}

function emptyRow(others) {
  const text = others ? "No pod is called so." : "No pods run here, as far as koordlet knows.";
  return element("tr", {}, element("td", { class: "words muted", colspan: columns().length }, text));
}

function podRows(pod) {
  const open = state.open.has(pod.uid);
  const turn = () => {
    if (!state.open.delete(pod.uid)) state.open.add(pod.uid);
    showPods();
  };
  const twist = element("button", { type: "button", class: "twist", "aria-expanded": String(open), "aria-label": "Containers" }, open ? "▾" : "▸");
  const name = element("td", { class: "words" }, twist, element("span", { class: "muted" }, `${pod.namespace}/`), pod.name);
  const chip = element("span", { class: `chip ${pod.qos}`, ink: pod.qos }, pod.qos);
  const row = element("tr", { class: "pod", onclick: turn }, name, element("td", { class: "words" }, chip), ...numbers(pod));
  if (!open) return [row];
  return [row, ...pod.containers.map((one) => element("tr", { class: "container" },
    element("td", { class: "words" }, one.name), element("td", {}), ...numbers(one)))];
}

function numbers(one) {
  return [used(one, "cpu", cores), used(one, "memory", bytes),
    element("td", { class: one.throttled > 0.1 ? "hot" : "" }, percent(one.throttled === null ? null : one.throttled * 100)),
    ...["psi_cpu", "psi_memory", "psi_io"].map((key) => element("td", { class: one[key] > 10 ? "hot" : "" }, percent(one[key]))),
    ...columns().slice(COLUMNS.length).map((column) => delay(column, column.value(one)))];
}

function delay(column, value) {
  const text = value === null ? "–" : `${Number(value.toPrecision(3))} ${column.unit}`;
  return element("td", { class: value > column.hot ? "hot" : "" }, text);
}

function used(one, key, format) {
  const asked = one[`${key}_request`], value = one[key];
  const cell = element("td", {}, format(value, true));
  if (asked) {
    cell.append(" ", element("span", { class: "of" }, `/ ${format(asked, key === "memory")}`));
    cell.append(bar((value ?? 0) / asked));
    cell.title = `${percent(((value ?? 0) / asked) * 100, 0)} of the request; limit ${format(one[`${key}_limit`], true)}`;
  }
  return cell;
}

async function refreshDecisions() {
  const all = await ask("v1/why?history=0");
  const unfolded = all.decides ? [...state.unfolded] : [];
  const [evicted, ...found] = await Promise.all([
    // Older ones are in the journal: reading it each few seconds would be much work.
    ask("v1/why?evicted=&history=8&journal=0"),
    ...unfolded.map((name) => ask(`v1/why?strategy=${encodeURIComponent(name)}&history=100&journal=0`)),
  ]);
  state.why = { all, evicted, by: Object.fromEntries(unfolded.map((name, i) => [name, found[i]])) };
  showDecisions();
}

function unfold(name) {
  if (!state.unfolded.delete(name)) state.unfolded.add(name);
  showDecisions();
  refreshDecisions().catch(() => {}); // the next round tells what ails it
}

function showDecisions() {
  const { all, evicted, by: found } = state.why;
  const strategies = all.strategies ?? [];
  by("decides").textContent = all.decides ? `${strategies.filter((one) => one.enabled && one.mode !== "off").length} of ${strategies.length} strategies decide` : all.reason;
  const head = all.decides ? heads(["Strategy", "Mode", "Latest outcome"], ["Since", "Rounds", "Failed", "Took"]) : null;
  fill(by("strategies"), head, strategies.flatMap((one) => strategyRows(one, found[one.name], all.at)));
  const gone = all.decides ? evictions(evicted) : [];
  by("evicting").hidden = !all.decides;
  by("evictions-note").textContent = gone.length ? "" : "none since koordlet started";
  fill(by("evictions"), gone.length ? heads(["When", "Pod", "Strategy", "What", "Why"], []) : null, gone.map(evictionRow));
}

function strategyRows(one, found, now) {
  const open = state.unfolded.has(one.name), mode = one.enabled ? one.mode : "off";
  const twist = element("button", { type: "button", class: "twist", "aria-expanded": String(open), "aria-label": "Arithmetic" }, open ? "▾" : "▸");
  const more = one.decisions > 1 ? ` and ${one.decisions - 1} more` : "";
  const row = element("tr", { class: "fold", title: one.gate, onclick: () => unfold(one.name) },
    element("td", { class: "words" }, twist, one.name), element("td", { class: "words" }, element("span", { class: `mode ${mode}` }, mode)),
    element("td", { class: `words wrap ${one.reason ? "muted" : ""}` }, one.reason || one.latest?.outcome || "nothing decided",
      element("span", { class: "muted" }, one.reason ? "" : more)),
    element("td", {}, one.latest ? clock(one.latest.since, true) : "–"), element("td", {}, String(one.rounds)),
    element("td", { class: one.failures + one.overruns ? "hot" : "" }, String(one.failures + one.overruns)),
    element("td", {}, one.rounds ? `${(one.seconds * 1000).toFixed(1)} ms` : "–"));
  if (!open) return [row];
  const inside = found ? found.decisions.slice(0, MOST_SHOWN).map((each) => arithmetic(each, found.history, now)) : ["…"];
  if (found && !found.decisions.length) inside.push("Nothing stands decided.");
  if (found && found.decisions.length > MOST_SHOWN) inside.push(`${found.decisions.length - MOST_SHOWN} more: koordctl why pod NAME, koordctl why cgroup PATH.`);
  return [row, element("tr", {}, element("td", { class: "inside", colspan: 7 }, ...inside))];
}

function arithmetic(one, history, now) {
  const about = [one.pod, one.group].filter(Boolean).join(" ") || "the node";
  const numbers = one.given.flatMap((each) => [element("dt", {}, each.name), element("dd", {}, each.shown)]);
  const before = history.filter((past) => past.at < one.since && ["strategy", "aspect", "pod", "group"].every((key) => past[key] === one[key]));
  return element("div", { class: "decision" }, element("div", { class: "outcome" }, one.outcome),
    ...(one.formula ? [element("code", {}, one.formula)] : []), ...(numbers.length ? [element("dl", {}, ...numbers)] : []),
    element("div", { class: "note" }, `about ${about}${one.aspect ? ` (${one.aspect})` : ""}, for ${Math.max(Math.round(now - one.since), 0)} s`),
    ...before.slice(0, 5).map((past) => element("div", { class: "note" }, `${clock(past.at, true)}  ${past.outcome}`)));
}

function evictions(found) {
  const standing = found.decisions.map((one) => ({ ...one, at: one.since }));
  const seen = new Set(standing.map((one) => `${one.at} ${one.strategy} ${one.aspect} ${one.pod}`));
  return [...standing, ...found.history.filter((one) => !seen.has(`${one.at} ${one.strategy} ${one.aspect} ${one.pod}`))]
    .sort((a, b) => b.at - a.at).slice(0, 8);
}

function evictionRow(one) {
  const numbers = one.given.map((each) => `${each.name} ${each.shown}`).join(", ");
  return element("tr", {}, element("td", { class: "words" }, clock(one.at, true)), element("td", { class: "words" }, one.pod),
    element("td", { class: "words" }, one.strategy), element("td", { class: "words wrap" }, one.mode === "on" ? one.outcome : `${one.mode}: ${one.outcome}`),
    element("td", { class: "words wrap muted" }, [one.formula, numbers].filter(Boolean).join(": ")));
}

const STATES = { works: "ok", waiting: "muted", off: "muted", unavailable: "degraded" };

function showCollectors(node) {
  const { cache } = node;
  by("cache").textContent = `${cache.series} series kept in ${bytes(cache.memory_bytes, true)} of memory and ${bytes(cache.disk_bytes, true)} on disk`
    + (cache.refused ? `, ${cache.refused} samples refused` : "") + (cache.problem ? `; ${cache.problem}` : "");
  const head = ["What", "State", "Every", "Last round", "Samples"].map((name, i) => element("th", { class: i < 2 ? "words" : "", scope: "col" }, name));
  head.push(element("th", { class: "words", scope: "col" }, "Why"));
  const collectors = node.collectors.map((one) => observing(one.name, one.state, STATES[one.state], `${one.interval} s`,
    one.rounds ? `${(one.seconds * 1000).toFixed(1)} ms` : "–", one.rounds ? String(one.samples) : "–", one.reason));
  const states = Object.entries(node.states).map(([name, one]) => observing(name,
    one.age_seconds === null ? "not known" : `${one.age_seconds.toFixed(0)} s old`,
    one.problem ? "failed" : one.age_seconds === null ? "muted" : "ok", "", "", "", one.problem));
  fill(by("collectors"), element("tr", {}, ...head), [...collectors, ...states]);
}

function observing(name, word, kind, every, round, samples, why) {
  return element("tr", {}, element("td", { class: "words" }, name), element("td", { class: `words ${kind}` }, word),
    element("td", {}, every), element("td", {}, round), element("td", {}, samples), element("td", { class: "words wrap muted" }, why));
}

function showWindows() {
  by("windows").replaceChildren(...Object.keys(WINDOWS).map((name) => element("button", {
    type: "button", "aria-pressed": String(name === state.window),
    onclick: () => { state.window = name; showWindows(); refresh(); },
  }, name)));
}

offerTheme("koordlet-theme");
by("filter").addEventListener("input", (event) => { state.filter = event.target.value; showPods(); });
showWindows();
showPods();
await keepFresh(refresh);
