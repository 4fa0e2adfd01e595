// Stacked areas and lines over time, as SVG. Every text is set as text, never as markup.

const LEFT = 46, RIGHT = 10, TOP = 10, BOTTOM = 24, GAP_SECONDS = 30, PADDING = 34, LEAST_WIDTH = 240;
const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "ink") made.style.setProperty("--ink", `var(--${value})`);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function shape(name, attributes, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "ink") made.style.setProperty("--ink", `var(--${value})`);
    else made.setAttribute(key, value);
  }
  made.textContent = text;
  return made;
}

// As many pixels wide as the figure is, so that letters are as large as elsewhere:
// {title, times, stacks: [{name, label, values}], lines, limits: [{label, value, kind}],
//  format, least, empty, wide} drawn into a figure.
export function chart(figure, given) {
  const data = bridged(given);
  const series = [...data.stacks, ...data.lines];
  const known = series.some((one) => one.values.some((value) => value !== null));
  const head = element("div", { class: "title" }, element("h2", {}, data.title),
    element("span", { class: "muted" }, data.unit));
  if (!known) {
    figure.replaceChildren(head, element("div", { class: "empty" }, data.empty));
    return;
  }
  data.width = Math.max(figure.clientWidth - PADDING, LEAST_WIDTH);
  const plot = element("div", { class: "plot" }, drawing(data));
  hover(plot, data, series);
  figure.replaceChildren(head, legend(data, series), plot);
}

// Short gaps are bridged: steps may be shorter than the time between two looks.
function bridged(data) {
  const step = data.times[1] - data.times[0];
  const most = Math.max(GAP_SECONDS / step, 2);
  const gaps = (series) => {
    const known = runs(series, data.times.length);
    return known.slice(1).map(([first], i) => [known[i][1], first]).filter(([from, to]) => to - from <= most);
  };
  const fill = (one, holes) => {
    const values = one.values.slice();
    for (const [from, to] of holes) {
      const [first, last] = [values[from] ?? null, values[to] ?? null];
      if (first === null || last === null) continue;
      for (let i = from + 1; i < to; i += 1) values[i] = first + ((last - first) * (i - from)) / (to - from);
    }
    return { ...one, values };
  };
  const holes = gaps(data.stacks);
  return {
    ...data,
    stacks: data.stacks.map((one) => fill(one, holes)),
    lines: data.lines.map((one) => fill(one, gaps([one]))),
  };
}

function drawing(data) {
  const scale = scales(data);
  const svg = shape("svg", { viewBox: `0 0 ${scale.width} ${scale.height}`, role: "img", "aria-label": data.title });
  for (const tick of scale.ticks) {
    const y = scale.y(tick);
    svg.append(shape("line", { class: tick ? "gridline" : "axis", x1: LEFT, x2: scale.width - RIGHT, y1: y, y2: y }));
    svg.append(shape("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, data.format(tick)));
  }
  for (const [x, label] of timeTicks(data.times, scale)) {
    svg.append(shape("text", { x, y: scale.height - 6, "text-anchor": "middle" }, label));
  }
  const base = data.times.map(() => 0);
  for (const one of data.stacks) {
    const from = base.slice();
    one.values.forEach((value, i) => { base[i] += value ?? 0; });
    for (const [first, last] of runs(data.stacks, data.times.length)) {
      svg.append(shape("path", { class: "area", ink: one.name, d: area(from, base, first, last, scale) }));
    }
  }
  for (const one of data.lines) {
    for (const [first, last] of runs([one], data.times.length)) {
      svg.append(shape("path", { class: "stroke", ink: one.name, d: "M" + path(one.values, first, last, scale).join("L") }));
    }
  }
  for (const one of data.limits) {
    const y = scale.y(one.value);
    svg.append(shape("line", { class: one.kind, x1: LEFT, x2: scale.width - RIGHT, y1: y, y2: y }));
  }
  return svg;
}

function scales(data) {
  const { width } = data, height = data.wide || width < 500 ? 210 : 260;
  let most = data.least;
  data.times.forEach((_, i) => {
    const stacked = data.stacks.reduce((sum, one) => sum + (one.values[i] ?? 0), 0);
    most = Math.max(most, stacked, ...data.lines.map((one) => one.values[i] ?? 0));
  });
  most = Math.max(most, ...data.limits.map((one) => one.value));
  const ticks = niceTicks(most, data.base ?? 10);
  const top = ticks[ticks.length - 1];
  const span = Math.max(data.times.length - 1, 1);
  return {
    width, height, ticks,
    x: (i) => LEFT + (i / span) * (width - LEFT - RIGHT),
    y: (value) => height - BOTTOM - (value / top) * (height - BOTTOM - TOP),
    index: (x) => Math.round(((x - LEFT) / (width - LEFT - RIGHT)) * span),
  };
}

// From 0 to beyond the greatest value, in four or so steps of 1, 2 or 5 times a power;
// with base 2 (bytes) of powers of two.
export function niceTicks(most, base) {
  const rough = (most || 1) / 4;
  let step = 2 ** Math.ceil(Math.log2(rough));
  if (base === 10) {
    const power = 10 ** Math.floor(Math.log10(rough));
    step = [1, 2, 5, 10].find((one) => one * power >= rough * 0.999) * power;
  }
  const count = Math.max(Math.ceil(most / step - 1e-9), 1);
  return Array.from({ length: count + 1 }, (_, i) => i * step);
}

function timeTicks(times, scale) {
  if (times.length < 2) return [];
  const span = times[times.length - 1] - times[0];
  const step = [60, 120, 300, 600, 900, 1800, 3600, 7200, 14400].find((one) => span / one <= scale.width / 85) ?? 14400;
  const found = [];
  // Whole hours are so in local time.
  const shift = new Date(times[0] * 1000).getTimezoneOffset() * 60;
  for (let at = Math.ceil((times[0] - shift) / step) * step + shift; at <= times[times.length - 1]; at += step) {
    const x = scale.x((at - times[0]) / (times[1] - times[0]));
    if (x > LEFT + 14 && x < scale.width - 24) found.push([x, clock(at)]);
  }
  return found;
}

export function clock(at, seconds = false) {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return new Date(at * 1000).toLocaleTimeString([], seconds ? { ...options, second: "2-digit" } : options);
}

// Where at least one of the series has values, without a gap.
function runs(series, length) {
  const found = [];
  for (let i = 0; i < length; i += 1) {
    if (!series.some((one) => (one.values[i] ?? null) !== null)) continue;
    const last = found[found.length - 1];
    if (last && last[1] === i - 1) last[1] = i; else found.push([i, i]);
  }
  return found;
}

function path(values, first, last, scale) {
  const points = [];
  for (let i = first; i <= last; i += 1) {
    points.push(`${scale.x(i).toFixed(1)} ${scale.y(values[i] ?? 0).toFixed(1)}`);
  }
  return points;
}

function area(from, to, first, last, scale) {
  return `M${path(to, first, last, scale).join("L")}L${path(from, first, last, scale).reverse().join("L")}Z`;
}

function legend(data, series) {
  const now = data.times.findLastIndex((_, i) => series.some((one) => (one.values[i] ?? null) !== null));
  const rows = series.map((one) => element("li", {}, element("span", { class: "swatch", ink: one.name }),
    `${one.label} `, element("b", {}, (one.values[now] ?? null) === null ? "" : data.format(one.values[now], true))));
  for (const one of data.limits.filter((limit) => limit.kind === "peak")) {
    rows.push(element("li", {}, element("span", { class: "swatch dashed", ink: "peak" }),
      `${one.label} `, element("b", {}, data.format(one.value, true))));
  }
  return element("ul", { class: "legend" }, ...rows);
}

function hover(plot, data, series) {
  const svg = plot.firstChild, scale = scales(data);
  const line = shape("line", { class: "cursor", y1: TOP, y2: scale.height - BOTTOM, visibility: "hidden" });
  const tip = element("div", { class: "tip", hidden: "" });
  svg.append(line);
  plot.append(tip);
  plot.addEventListener("pointerleave", () => { tip.hidden = true; line.setAttribute("visibility", "hidden"); });
  plot.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const i = scale.index(((event.clientX - box.left) / box.width) * scale.width);
    if (i < 0 || i >= data.times.length) return;
    line.setAttribute("x1", scale.x(i));
    line.setAttribute("x2", scale.x(i));
    line.setAttribute("visibility", "visible");
    const rows = [...series].reverse().filter((one) => one.values[i] !== null).map((one) => element("div", {},
      element("span", {}, element("span", { class: "swatch", ink: one.name }), one.label),
      element("b", {}, data.format(one.values[i], true))));
    tip.replaceChildren(element("span", { class: "muted" }, clock(data.times[i], true)), ...rows);
    tip.hidden = false;
    const at = (scale.x(i) / scale.width) * box.width;
    tip.style.left = `${at > box.width / 2 ? at - tip.offsetWidth - 12 : at + 12}px`;
  });
}
