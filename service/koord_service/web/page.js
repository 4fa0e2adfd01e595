// What the pages of all programs need: to ask, to write amounts, and to be light or dark.

import { element } from "./charts.js";

export const by = (id) => document.getElementById(id);

export async function ask(path) {
  const answer = await fetch(path);
  // A sick program answers /healthz with 503, and says there what ails it.
  if (!answer.ok && answer.status !== 503) throw new Error(`${path}: ${(await answer.text()).trim()}`);
  return answer.json();
}

export function cores(value, exact = false) {
  if (value === null || value === undefined) return "–";
  return exact ? (value < 9.995 ? value.toFixed(2) : value.toFixed(1)) : String(Number(value.toFixed(3)));
}

export function bytes(value, exact = false) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) { value /= 1024; place += 1; }
  const digits = exact && place > 1 && value < 99.95 ? 1 : 0;
  return `${Number.isInteger(value) && !exact ? value : value.toFixed(digits)} ${units[place]}`;
}

export function percent(value, digits = 1) {
  return value === null || value === undefined ? "–" : `${value.toFixed(digits)} %`;
}

export function whole(value) {
  return Math.round(value).toLocaleString("en");
}

export function count(number, name) {
  return `${whole(number)} ${name}${number === 1 ? "" : name.endsWith("s") ? "es" : "s"}`;
}

export function lasting(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([least]) => seconds >= least) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
}

export function bar(part, hot = 2) {
  const fill = element("i", { class: part > hot ? "hot" : "" });
  fill.style.width = `${Math.min(Math.max(part, 0), 1) * 100}%`;
  return element("div", { class: "bar" }, fill);
}

export function tile(name, value, unit, between, note) {
  return element("div", { class: "card tile" }, element("div", { class: "name" }, name),
    element("div", { class: "value" }, `${value} `, element("small", {}, unit)),
    ...(between ? [between] : []), element("div", { class: "note" }, note));
}

export function heads(words, numbers, after = []) {
  const head = (kind) => (name) => element("th", { class: kind, scope: "col" }, name);
  return element("tr", {}, ...words.map(head("words")), ...numbers.map(head("")), ...after.map(head("words")));
}

// Fills a table; on narrow screens each cell says of which column it is, as the head is not there.
export function fill(table, head, rows) {
  const names = head ? [...head.cells].map((cell) => cell.textContent) : [];
  table.tHead.replaceChildren(...(head ? [head] : []));
  table.tBodies[0].replaceChildren(...rows);
  for (const row of rows) {
    if (row.cells.length !== names.length) continue;
    [...row.cells].forEach((cell, i) => { if (i) cell.dataset.label = names[i]; });
  }
}

// Shows what there is now, and every few seconds anew while somebody looks.
export async function keepFresh(refresh, milliseconds = 5000) {
  await refresh();
  document.body.dataset.fresh = "true";
  setInterval(() => { if (!document.hidden) refresh(); }, milliseconds);
}

// Light or dark: as the system has it, until somebody clicks; `name` is where that is kept.
export function offerTheme(name) {
  const show = (chosen) => {
    const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    by("theme").textContent = dark ? "Light" : "Dark";
  };
  const stored = (value) => {
    try {
      if (value) localStorage.setItem(name, value);
      return localStorage.getItem(name);
    } catch {
      return value ?? null; // a browser that keeps nothing
    }
  };
  show(stored());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show(stored()));
  by("theme").addEventListener("click", () => show(stored(document.documentElement.dataset.theme === "dark" ? "light" : "dark")));
}
