// A cell for each node, drawn on a canvas: thousands of elements would be slow. People who cannot
// see it have the legend's counts, the slider's text for each node, and the table below.

import { element } from "./charts.js";
import { whole } from "./page.js";

export const STEPS = [0, 20, 40, 60, 80, 95];
const LARGEST = 26, SMALLEST = 4, HEIGHT = 420;

// The step of a percentage; -1 of what is not known.
export function stepOf(value) {
  return value === null || value < 0 ? -1 : STEPS.findLastIndex((least) => value >= least);
}

export class HeatMap {
  // `describe` says of a node, by its place, what a person is to hear and see of it.
  constructor(root, describe, onSelect) {
    this.describe = describe;
    this.onSelect = onSelect;
    this.order = [];
    this.values = [];
    this.selected = -1;
    this.canvas = element("canvas", { class: "heat" });
    this.slider = element("div", { class: "map", role: "slider", tabindex: "0", "aria-label": "Node", "aria-valuemin": "0" }, this.canvas);
    this.detail = element("p", { class: "detail", role: "status" });
    this.legend = element("ul", { class: "legend" });
    root.replaceChildren(this.legend, this.slider, this.detail);
    this.canvas.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") this.point(event); });
    this.canvas.addEventListener("pointerdown", (event) => this.point(event));
    this.slider.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(root);
    new MutationObserver(() => this.draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  }

  // `order` has places of nodes as they are shown, `values` percents by place, `closed` is a set.
  show(order, values, closed, what) {
    const node = this.order[this.selected];
    Object.assign(this, { order, values, closed });
    this.selected = node === undefined ? -1 : order.indexOf(node);
    this.slider.setAttribute("aria-valuemax", String(Math.max(order.length - 1, 0)));
    const counts = new Array(STEPS.length + 1).fill(0);
    for (const place of order) counts[stepOf(values[place]) + 1] += 1;
    const words = ["not known", ...STEPS.map((least, i) => (i + 1 < STEPS.length ? `${least} to ${STEPS[i + 1]} %` : `${least} % and more`))];
    this.legend.replaceChildren(element("li", {}, what), ...words.map((word, i) => [word, i]).filter(([, i]) => i || counts[0])
      .map(([word, i]) => element("li", {}, element("span", { class: "swatch", ink: i ? `heat-${i - 1}` : "heat-unknown" }), `${word} `, element("b", {}, whole(counts[i])))));
    this.draw();
    this.say();
  }

  draw() {
    const width = Math.floor(this.slider.clientWidth), number = this.order.length;
    if (!width) return;
    const size = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(Math.sqrt((width * HEIGHT) / Math.max(number, 1)))));
    const columns = Math.max(Math.floor(width / size), 1), ratio = window.devicePixelRatio || 1;
    const height = Math.max(Math.ceil(number / columns), 1) * size;
    Object.assign(this, { size, columns });
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    this.canvas.style.height = `${height}px`;
    const style = getComputedStyle(document.documentElement), ink = (name) => style.getPropertyValue(`--${name}`);
    const colours = [ink("heat-unknown"), ...STEPS.map((_, i) => ink(`heat-${i}`))], line = ink("text"), gap = size > 7 ? 1 : size > 4 ? 0.5 : 0;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    this.order.forEach((place, i) => {
      const x = (i % columns) * size, y = Math.floor(i / columns) * size;
      pen.fillStyle = colours[stepOf(this.values[place]) + 1];
      pen.fillRect(x, y, size - gap, size - gap);
      if (this.closed.has(place) && size > 7) {
        pen.strokeStyle = line;
        pen.beginPath();
        pen.moveTo(x + 2, y + size - gap - 2);
        pen.lineTo(x + size - gap - 2, y + 2);
        pen.stroke();
      }
    });
    if (this.selected >= 0) {
      pen.strokeStyle = line;
      pen.lineWidth = 2;
      pen.strokeRect((this.selected % columns) * size - 0.5, Math.floor(this.selected / columns) * size - 0.5, size, size);
    }
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.size), row = Math.floor((event.clientY - box.top) / this.size);
    if (column < this.columns) this.select(row * this.columns + column);
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns, PageDown: 10 * this.columns, PageUp: -10 * this.columns };
    const last = this.order.length - 1, to = { Home: 0, End: last }[event.key] ?? this.selected + (steps[event.key] ?? NaN);
    if (Number.isNaN(to)) return;
    event.preventDefault();
    this.select(Math.max(0, Math.min(last, to)));
  }

  select(i) {
    if (i === this.selected || i < 0 || i >= this.order.length) return;
    this.selected = i;
    this.draw();
    this.say();
  }

  say() {
    const place = this.order[this.selected];
    const { text, parts } = place === undefined ? { text: "none chosen", parts: ["Point at a node, or choose one with the arrow keys."] } : this.describe(place);
    this.slider.setAttribute("aria-valuenow", String(Math.max(this.selected, 0)));
    this.slider.setAttribute("aria-valuetext", text);
    this.detail.replaceChildren(...parts);
  }
}
