"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const agents = new Map(data.agents.map((agent) => [agent.name, agent]));
const state = { metric: data.metrics[0].name, hidden: new Set(), single: false };

function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "circle", "rect"].includes(tag);
  const node = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function short(x) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x), digits = (value, n) => String(Number(value.toPrecision(n)));
  if (size >= 1e6) return digits(x / 1e6, 3) + "M";
  if (size >= 1e4) return digits(x / 1e3, 3) + "k";
  return digits(x, 4);
}

/* Round values between low and high, each with a text that tells it from the next one; all of them
   in thousands, in millions, or as they are. */
function ticks(low, high, about) {
  const rough = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const size = Math.max(Math.abs(low), Math.abs(high));
  const [unit, letter] = size >= 1e6 ? [1e6, "M"] : size >= 1e4 ? [1e3, "k"] : [1, ""];
  const decimals = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  const text = (value) => {
    const digits = (value / unit).toFixed(decimals);
    return letter && Number(digits) ? Number(digits) + letter : letter ? "0" : digits;
  };
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i += 1)
    found.push([i * step, text(i * step)]);
  return found;
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (v !== null) { low = Math.min(low, v); high = Math.max(high, v); }
  if (!(low < high)) { low = (Number.isFinite(low) ? low : 0) - 0.5; high = low + 1; }
  const room = (high - low) * 0.05;
  return [low - room, high + room];
}

/* A plot area with axes, x labelled: where x and y go on it. */
function frame(width, height, [x0, x1], [y0, y1], label) {
  const box = { left: 46, right: width - 10, top: 8, bottom: height - 42 };
  const x = (v) => box.left + ((v - x0) / (x1 - x0)) * (box.right - box.left);
  const y = (v) => box.bottom - ((v - y0) / (y1 - y0)) * (box.bottom - box.top);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const [t, text] of ticks(y0, y1, 5)) {
    svg.append(make("line", { class: "axis", x1: box.left, x2: box.right, y1: y(t), y2: y(t) }));
    svg.append(make("text", { x: box.left - 6, y: y(t) + 4, "text-anchor": "end" }, text));
  }
  for (const [t, text] of ticks(x0, x1, Math.max(3, width / 110))) {
    svg.append(make("text", { x: x(t), y: box.bottom + 17, "text-anchor": "middle" }, text));
  }
  const middle = (box.left + box.right) / 2;
  svg.append(make("text", { class: "label", x: middle, y: height - 6, "text-anchor": "middle" }, label));
  return { svg, x, y, box };
}

function path(xs, ys, x, y) {
  let d = "", pen = false;
  xs.forEach((step, i) => {
    if (ys[i] === null) { pen = false; return; }
    d += `${pen ? "L" : "M"}${x(step).toFixed(1)} ${y(ys[i]).toFixed(1)}`;
    pen = true;
  });
  return d;
}

function band(line, x, y) {
  const known = line.steps.map((_, i) => i).filter((i) => line.low[i] !== null);
  const there = known.map((i) => `${x(line.steps[i]).toFixed(1)} ${y(line.high[i]).toFixed(1)}`);
  const back = known.map((i) => `${x(line.steps[i]).toFixed(1)} ${y(line.low[i]).toFixed(1)}`);
  return there.length ? `M${there.join("L")}L${back.reverse().join("L")}Z` : "";
}

function drawCurves(card, task, metric) {
  const lines = Object.entries(task.curves[metric] || {}).filter(([a]) => !state.hidden.has(a));
  card.querySelector("svg")?.remove();
  if (!lines.length) return;
  const width = Math.max(260, card.clientWidth - 26), height = Math.min(378, Math.max(208, width * 0.55 + 18));
  const ys = lines.flatMap(([, l]) => (state.single || l.few ? l.seeds.flat() : [...l.mean, ...l.low, ...l.high]));
  const last = Math.max(...lines.map(([, l]) => l.steps.at(-1)));
  const { svg, x, y, box } = frame(width, height, [0, last], range(ys), "environment steps");
  for (const [name, line] of lines) {
    const colour = agents.get(name).colour;
    if (state.single || line.few) {
      for (const seed of line.seeds) {
        svg.append(make("path", { d: path(line.steps, seed, x, y), fill: "none", stroke: colour, "stroke-width": 1, opacity: 0.55 }));
      }
    } else {
      svg.append(make("path", { d: band(line, x, y), fill: colour, opacity: 0.18 }));
    }
    svg.append(make("path", { class: "mean", "data-agent": name, d: path(line.steps, line.mean, x, y), fill: "none", stroke: colour, "stroke-width": 2 }));
  }
  card.append(svg);
  hover(card, svg, lines, x, box, width);
}

function hover(card, svg, lines, x, box, width) {
  const cursor = make("line", { class: "cursor", y1: box.top, y2: box.bottom, visibility: "hidden" });
  svg.append(cursor);
  const tip = card.querySelector(".tip");
  const leave = () => { tip.hidden = true; cursor.setAttribute("visibility", "hidden"); };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", (event) => {
    const bounds = svg.getBoundingClientRect();
    const at = ((event.clientX - bounds.left) / bounds.width) * width;
    const longest = lines.map(([, l]) => l.steps).reduce((a, b) => (a.length > b.length ? a : b));
    const nearest = (steps) => steps.reduce((best, s, i) => (Math.abs(x(s) - at) < Math.abs(x(steps[best]) - at) ? i : best), 0);
    const step = longest[nearest(longest)];
    cursor.setAttribute("x1", x(step));
    cursor.setAttribute("x2", x(step));
    cursor.setAttribute("visibility", "visible");
    tip.replaceChildren(make("div", {}, `${short(step)} steps`));
    for (const [name, line] of lines) {
      const i = nearest(line.steps);
      const spread = line.low[i] === null ? "" : ` [${short(line.low[i])}, ${short(line.high[i])}]`;
      const row = make("div", {}, `${agents.get(name).label}: `, make("b", {}, short(line.mean[i])), spread);
      row.style.color = agents.get(name).colour;
      tip.append(row);
    }
    tip.hidden = false;
    const room = card.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(8, Math.min(room, event.clientX - bounds.left + 24))}px`;
    tip.style.top = `${svg.offsetTop || 40}px`;
  });
}

function drawFinals(card, task) {
  card.querySelector("svg")?.remove();
  const shown = task.finals.filter((f) => !state.hidden.has(f.agent));
  if (!shown.length) return;
  const width = Math.max(260, card.clientWidth - 26), row = 66, height = shown.length * row + 30;
  const all = shown.flatMap((f) => (f.few ? f.scores : [...f.scores, f.low, f.high]));
  const [x0, x1] = range(all);
  const left = 12, x = (v) => left + ((v - x0) / (x1 - x0)) * (width - 2 * left);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const [t, text] of ticks(x0, x1, Math.max(4, width / 100))) {
    svg.append(make("line", { class: "axis", x1: x(t), x2: x(t), y1: 0, y2: height - 22 }));
    svg.append(make("text", { x: x(t), y: height - 6, "text-anchor": "middle" }, text));
  }
  shown.forEach((f, i) => {
    const { colour, label } = agents.get(f.agent), y = i * row + 52;
    const spread = f.low === null ? "one seed" : `[${short(f.low)}, ${short(f.high)}], ${f.scores.length} seeds`;
    svg.append(make("text", { class: "name", x: left, y: y - 32 }, `${label}: ${short(f.mean)}`));
    svg.append(make("text", { class: "spread", x: left, y: y - 15 }, spread));
    if (!f.few) svg.append(make("line", { x1: x(f.low), x2: x(f.high), y1: y, y2: y, stroke: colour, "stroke-width": 3 }));
    for (const s of f.scores) svg.append(make("circle", { cx: x(s), cy: y, r: 3, fill: colour, opacity: 0.45 }));
    svg.append(make("circle", { cx: x(f.mean), cy: y, r: 5.5, fill: colour, stroke: "var(--card)", "stroke-width": 1.5 }));
  });
  card.append(svg);
}

const drawn = [];  // every chart: how to draw it; first when all are there, for they share the width
function card(parent, task, draw) {
  const tip = make("div", { class: "tip" });
  tip.hidden = true;
  const box = make("div", { class: "card" }, make("h3", {}, task.label), tip);
  parent.append(box);
  drawn.push(() => draw(box, task));
}
const redrawAll = () => drawn.forEach((redraw) => redraw());

function toggle(parent, text, pressed, press, colour) {
  const button = make("button", { type: "button", "aria-pressed": pressed });
  if (colour) {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = colour;
    button.append(swatch);
  }
  button.append(text);
  button.addEventListener("click", () => press(button));
  parent.append(button);
}

function table(parent, rows) {
  if (!rows.length) return;
  const names = Object.keys(rows[0]);
  const head = make("tr", {}, ...names.map((name) => make("th", {}, name)));
  const lines = rows.map((r) => make("tr", {}, ...names.map((n) => {
    const value = r[n];
    return make("td", {}, typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value ?? "–"));
  })));
  parent.append(make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines)));
}

/* The episode player. */
const player = { episode: null, at: 0, timer: null };

function show(at) {
  const { episode } = player;
  player.at = Math.max(0, Math.min(episode.moments.length - 1, at));
  const moment = episode.moments[player.at];
  byId("frame").src = byId("panel").src = episode.frames[moment.frame];
  byId("frame").alt = `step ${player.at}`;
  byId("seek").value = player.at;
  byId("clock").textContent = `${player.at} / ${episode.moments.length - 1}`;
  byId("words").textContent = moment.words;
  const odds = (moment.probs || []).map((p, i) => [p, i]).sort((a, b) => b[0] - a[0]);
  const few = episode.actions.length <= 8 ? odds.sort((a, b) => a[1] - b[1]) : odds.slice(0, 8);
  byId("odds").replaceChildren(...few.map(([p, i]) => {
    const fill = make("i");
    fill.style.width = `${100 * p}%`;
    return make("div", { class: i === moment.action ? "odd chosen" : "odd" },
      make("span", { title: episode.actions[i] }, episode.actions[i]),
      make("div", { class: "bar" }, fill), make("span", {}, `${(100 * p).toFixed(0)}%`));
  }));
  if (!few.length) byId("odds").textContent = moment.values ? "A continuous action." : "Nothing more: this is where it stops.";
  drawValues();
}

function drawValues() {
  const { episode, at } = player, parent = byId("values");
  const width = Math.max(220, parent.clientWidth), height = 138;
  const n = episode.moments.length, critics = episode.moments[0].values.length;
  const xs = episode.moments.map((_, i) => i);
  const ys = [...Array(critics).keys()].map((c) => episode.moments.map((m) => (m.values ? m.values[c] : null)));
  const { svg, x, y, box } = frame(width, height, [0, Math.max(1, n - 1)], range(ys.flat()), "step of the episode");
  const colours = ["var(--accent)", "#d55e00"];
  ys.forEach((line, c) => svg.append(make("path", { d: path(xs, line, x, y), fill: "none", stroke: colours[c], "stroke-width": 1.6 })));
  svg.append(make("line", { class: "cursor", x1: x(at), x2: x(at), y1: box.top, y2: box.bottom }));
  const said = ys.map((line, c) => {
    const text = make("div", {}, `${episode.critics[c]}: ${short(line[at])}`);
    text.style.color = colours[c];
    return text;
  });
  parent.replaceChildren(...said, svg);
}

function play(on) {
  clearInterval(player.timer);
  player.timer = null;
  byId("play").textContent = on ? "❚❚" : "▶";
  byId("play").setAttribute("aria-label", on ? "Pause" : "Play");
  if (!on) return;
  if (player.at === player.episode.moments.length - 1) show(0);
  player.timer = setInterval(() => {
    show(player.at + 1);
    if (player.at === player.episode.moments.length - 1) play(false);
  }, 280);
}

function open(index) {
  play(false);
  player.episode = data.episodes[index];
  const { frame, panel } = player.episode.size;  // where the screen is narrow, the two come apart
  byId("frame").style.setProperty("--game", `${frame[0] - panel[0]} / ${frame[1]}`);
  byId("panel").style.width = `${panel[0]}px`;
  byId("panel").style.height = `${panel[1]}px`;
  byId("seek").max = player.episode.moments.length - 1;
  show(0);
}

/* Put it all together. */
for (const line of data.summary) byId("summary").append(make("p", { class: "verdict" }, line));

for (const metric of data.metrics) {
  toggle(byId("metrics"), metric.label, metric.name === state.metric, (button) => {
    state.metric = metric.name;
    for (const other of byId("metrics").children) other.setAttribute("aria-pressed", other === button);
    redrawAll();
  });
}
for (const agent of data.agents) {
  toggle(byId("agents"), agent.label, true, (button) => {
    const hide = !state.hidden.has(agent.name);
    if (hide) state.hidden.add(agent.name); else state.hidden.delete(agent.name);
    button.setAttribute("aria-pressed", !hide);
    redrawAll();
  }, agent.colour);
}
byId("single").addEventListener("change", (event) => { state.single = event.target.checked; redrawAll(); });

for (const task of data.tasks) {
  card(byId("charts"), task, (box) => drawCurves(box, task, state.metric));
  if (task.curves.discrepancy) card(byId("discrepancy-charts"), task, (box) => drawCurves(box, task, "discrepancy"));
  card(byId("final-charts"), task, (box) => drawFinals(box, task));
}
byId("discrepancy").hidden = !byId("discrepancy-charts").children.length;

byId("episodes").hidden = !data.episodes.length;
if (data.episodes.length) {
  data.episodes.forEach((e, i) => byId("episode").append(make("option", { value: i }, e.label)));
  byId("episode").addEventListener("change", (event) => open(Number(event.target.value)));
  byId("seek").addEventListener("input", (event) => { play(false); show(Number(event.target.value)); });
  byId("back").addEventListener("click", () => { play(false); show(player.at - 1); });
  byId("next").addEventListener("click", () => { play(false); show(player.at + 1); });
  byId("play").addEventListener("click", () => play(player.timer === null));
  document.addEventListener("keydown", (event) => {
    if (/^(INPUT|SELECT|BUTTON)$/.test(event.target.tagName)) return;
    const keys = { ArrowLeft: () => show(player.at - 1), ArrowRight: () => show(player.at + 1), " ": () => play(player.timer === null) };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  open(0);
}
byId("pictures").hidden = !data.pictures.length;
for (const p of data.pictures) {
  byId("gallery").append(make("figure", {}, make("img", { src: p.src, alt: p.title }), make("figcaption", { class: "hint" }, p.title)));
}
table(byId("hyperparameters"), data.settings);
byId("sweep").hidden = !data.budgets.length;
table(byId("budgets"), data.budgets);
redrawAll();
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  redrawAll();
});
let resizing = null;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => { redrawAll(); if (player.episode) drawValues(); }, 80);
});
