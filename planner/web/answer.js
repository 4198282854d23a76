// The answer: the bar that stays, what the last change did, what else could be rented, and what one change would bring.
import { folded, figure, make, money, table, time, timeUp } from "./draw.js";
import { configNames, fields, valueOf } from "./fields.js";
import { byId, post, state } from "./state.js";

export function showTiles(tiles, isQuick) {
  byId("tiles").replaceChildren(...tiles.map(([what, value, range]) => {
    const box = make("div", undefined, isQuick ? "quick" : ""), cell = make("dd");
    cell.append(make("strong", value));
    if (range) cell.append(make("span", range));
    box.append(make("dt", what), cell);
    return box;
  }));
}

// Without a plan the bar has the least change that gives one; `move` makes it.
export function showWayOut(answer, move) {
  const isNone = answer.usd === null, cell = byId("tiles").querySelector("div:nth-child(2) dd"), first = answer.changes[0];
  byId("tiles").classList.toggle("none", isNone);
  if (isNone && cell && first && first.values) cell.append(tryIt(first, move));
}

function tryIt(change, move) {
  const button = make("button", "Try");
  button.type = "button";
  button.setAttribute("aria-label", "Try: " + change.text);
  button.addEventListener("click", () => move({ ...state.values, ...change.values }));
  return button;
}

export function showChips(chips) {
  byId("chips").replaceChildren(...chips.map(([tone, text, title]) => {
    const one = make("li", text, "chip " + tone);
    one.title = title;
    return one;
  }));
}

// What would change the decision, right below the headline: the first three, the others folded.
export function showWarnings(texts) {
  const lines = texts.map((text) => make("p", "! " + text, "warning")), first = lines.slice(0, 3), rest = lines.slice(3);
  if (rest.length) {
    const more = make("details");
    more.append(make("summary", rest.length + " more"), ...rest);
    first.push(more);
  }
  byId("warnings").replaceChildren(...first);
}

// The strip: the fields that the last change moved, and what it did to cost, time and machines.
export function showStrip() {
  const now = state.shown, then = state.last, text = byId("strip-text");
  if (!now || !then) { text.textContent = "Change a field: this line says what it did."; return; }
  const name = (value) => configNames.get(value) || value || "none";
  const moved = [...fields.values()].map((one) => one.control)
    .filter((one) => valueOf(now.values, one) !== valueOf(then.values, one))
    .map((one) => one.label + " " + name(valueOf(then.values, one)) + " → " + name(valueOf(now.values, one)));
  if (!moved.length) return;
  const a = then.answer, b = now.answer, said = [];
  if (b.usd === null) said.push("no plan");
  else if (a.usd === null) said.push("a plan for " + money(b.usd));
  else {
    const more = b.usd - a.usd, wait = a.within !== null && b.within !== null ? b.within - a.within : 0;
    said.push(Math.abs(more) < 0.005 ? "same cost" : (more > 0 ? "+" : "-") + money(Math.abs(more)));
    if (Math.abs(wait) >= 0.05) said.push(time(Math.abs(wait)) + (wait > 0 ? " later" : " earlier"));
    if (a.machine && b.machine) said.push(a.machine === b.machine ? "same machines" : b.machine + " in place of " + a.machine);
  }
  text.replaceChildren(make("b", moved.join("; ") + ": "), said.join(", "));
}

// The table of what else could be rented, sorted by the heading that was pressed.
const COLUMNS = [
  ["machine", "machine"], ["place", "where"], ["rent", "$/h"], ["usd", "total"], ["bar", ""], ["by", "by"], ["how", "how"], ["why", "against the plan"],
];
const sorted = { by: "usd", up: true };
let rows = [];

export function showOthers(found) {
  rows = found;
  byId("others-table").replaceChildren();
  if (!rows.length) return;
  const most = Math.max(...rows.map((one) => one.usd));
  const region = table("What else could I rent", COLUMNS.map(([, text]) => text), []), head = region.querySelector("thead tr");
  COLUMNS.forEach(([key, text], index) => {
    const cell = head.children[index];
    if (key === "bar") { cell.replaceWith(make("td")); return; }
    const button = make("button", text, "sort");
    button.type = "button";
    cell.setAttribute("aria-sort", sorted.by === key ? (sorted.up ? "ascending" : "descending") : "none");
    button.addEventListener("click", () => {
      sorted.up = sorted.by === key ? !sorted.up : true;
      sorted.by = key;
      showOthers(rows);
      byId("others-table").querySelectorAll("button.sort")[index > 4 ? index - 1 : index].focus();
    });
    cell.replaceChildren(button);
    if (["rent", "usd", "by"].includes(key)) cell.className = "n";
  });
  const value = (one) => one[sorted.by] === null ? Infinity : one[sorted.by];
  const order = [...rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (sorted.up ? 1 : -1));
  for (const one of order) {
    const row = make("tr", undefined, one.plan ? "me" : ""), bar = make("td", undefined, "share"), length = make("span", undefined, "length");
    length.style.width = Math.max(2, 100 * one.usd / most) + "%";
    bar.append(length);
    const why = make("td", one.plan ? "the plan" : one.why);
    row.append(make("td", one.machine), make("td", one.place), make("td", one.rent === null ? "-" : one.rent.toFixed(2), "n"),
      make("td", money(one.usd), "n"), bar, make("td", one.by === null ? "-" : timeUp(one.by), "n"), make("td", one.how), why);
    region.querySelector("tbody").append(row);
  }
  byId("others-table").append(region);
}

export async function allOthers() {
  const wanted = state.values, lead = byId("others-lead");
  lead.textContent = "Looking for the best of each GPU at each provider …";
  try {
    const answer = await post("others", { values: wanted });
    if (answer.superseded || wanted !== state.values) return;
    showOthers(answer.rows);
    lead.textContent = answer.rows.length ? answer.rows.length + " rows: the best of each GPU at each provider within the limits. A GPU that is missing has none: ask why below." : "Of several jobs each has its alternatives in a tab of its own.";
  } catch (error) { lead.textContent = error.message; }
}

export async function askWhy(gpu) {
  const text = byId("why-answer");
  text.hidden = false;
  text.textContent = "Looking for the best plan with " + gpu + " …";
  try {
    const answer = await post("why", { values: state.values, gpu });
    text.textContent = answer.superseded ? "" : answer.text;
  } catch (error) { text.textContent = error.faults ? error.faults.map((one) => one.what).join("; ") : error.message; }
}

// What one change would bring; without a plan these are the ways out. `move` makes the change.
export function showChanges(answer, move) {
  const changes = answer.changes, box = byId("could");
  box.classList.toggle("first", answer.status === "infeasible");
  box.hidden = !changes.length && answer.status !== "infeasible";
  byId("could-title").textContent = answer.status === "infeasible" ? "Why there is no plan, and what would give one" : "If you could change one thing";
  const list = byId("could-list");
  list.replaceChildren();
  if (answer.status === "infeasible") {
    byId("could-lead").textContent = changes.length ? "The smallest changes that give a plan, each verified by solving:" : "No candidate meets all limits, and no small change was found that gives one.";
  } else byId("could-lead").textContent = "";
  for (const one of changes) {
    const item = make("li"), what = make("span", one.text);
    item.append(what);
    if (one.gain) item.append(make("b", one.gain, /^\+/.test(one.gain) ? "up" : /^-/.test(one.gain) ? "down" : ""));
    if (one.values) item.append(tryIt(one, move));
    else if (one.setting) item.append(make("code", one.setting));
    list.append(item);
  }
  byId("misses").replaceChildren();
  if (answer.misses.length) {
    const near = make("ul");
    for (const one of answer.misses) near.append(make("li", one));
    byId("misses").append(make("h3", "Near misses"), near);
  }
}

// Tabs: the table of what else could be rented, then each figure of the plan, then the plan in words.
let active = "";

export function showFigures(answer) {
  const tabs = byId("tabs"), panels = byId("figures");
  const parts = [
    ...(answer.others.length ? [["others", "What else could I rent"]] : []),
    ...answer.figures.map((one) => ["figure-" + one.key, one.title]),
    ["plan", "In words"],
  ];
  const open = new Set([...panels.querySelectorAll("details[open]")].map((one) => one.closest("section").id));
  panels.replaceChildren(...answer.figures.map(figure));
  for (const id of open) { const one = document.querySelector("#" + CSS.escape(id) + " details"); if (one) one.open = true; }
  tabs.replaceChildren(...parts.map(([id, title]) => {
    const button = make("button", title);
    button.type = "button"; button.id = "tab-" + id;
    button.setAttribute("role", "tab"); button.setAttribute("aria-controls", id);
    button.addEventListener("click", () => choose(id));
    const panel = byId(id);
    panel.setAttribute("role", "tabpanel"); panel.setAttribute("aria-labelledby", button.id);
    return button;
  }));
  byId("others").hidden = true;
  choose(parts.some(([id]) => id === active) ? active : parts[0][0]);
}

function choose(id) {
  active = id;
  for (const tab of byId("tabs").children) {
    const isOn = tab.getAttribute("aria-controls") === id;
    tab.setAttribute("aria-selected", isOn); tab.tabIndex = isOn ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !isOn;
  }
}

byId("tabs").addEventListener("keydown", (event) => {
  const all = [...byId("tabs").children], at = all.indexOf(document.activeElement);
  const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (next === undefined || at < 0) return;
  event.preventDefault();
  const one = all[(next + all.length) % all.length];
  choose(one.getAttribute("aria-controls")); one.focus();
});

export function showFacts(answer) {
  const facts = byId("facts");
  facts.replaceChildren();
  for (const [name, lines] of answer.jobs) {
    if (answer.jobs.length > 1) facts.append(make("h3", name));
    const list = make("dl", undefined, "facts");
    for (const [label, text] of lines) list.append(make("dt", label), make("dd", text));
    facts.append(list);
  }
  if (answer.more_jobs) facts.append(make("p", answer.more_jobs + " more jobs are in the timetable and in the bill.", "muted"));
}

// The curve as a picture: the styles of the page are written into a copy, which a canvas draws.
export async function curvePicture() {
  const svg = document.querySelector("#curve svg");
  if (!svg) throw new Error("There is no curve yet.");
  const copy = svg.cloneNode(true), box = svg.viewBox.baseVal, scale = 2;
  const from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((one, index) => {
    const style = getComputedStyle(one);
    for (const name of ["fill", "stroke", "stroke-width", "font-size", "font-family", "font-weight", "visibility"]) to[index].style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width); copy.setAttribute("height", box.height);
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
  await image.decode();
  const canvas = make("canvas");
  canvas.width = box.width * scale; canvas.height = box.height * scale;
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(document.body).backgroundColor;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export { folded };
