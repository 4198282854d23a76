let values = {}, before = {}, past = [], pins = [], shown = null, lastEdit = { key: "", at: 0 };
const session = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
let traces = 0;
const letters = "ABC", wait = { plan: 0, frontier: 0 }, asked = { plan: 0, frontier: 0 }, running = {};
const axis = data.controls.find((one) => one.key === data.axis);  // the field along which the curve is drawn
const width = () => Math.round(Math.min(1000, Math.max(280, byId("results").clientWidth)));

class Failed extends Error { constructor(text, faults) { super(text); this.faults = faults; } }

async function post(task, content, signal) {
  let response, answer;
  try {
    response = await fetch("/api/" + task, {
      method: "POST", signal, credentials: "same-origin", cache: "no-store",
      headers: { "Content-Type": "application/json", "X-Planner-Token": data.token },
      body: JSON.stringify({ session, ...content }),
    });
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed("The server does not answer. Start planner app again, and append what follows # in this address to the new one.");
  }
  if (response.ok && !answer.error && !answer.faults) return answer;
  throw new Failed(answer.error || "", answer.faults);
}

function banner(text) { byId("banner").hidden = !text; byId("banner-text").textContent = text || ""; }

// The newest request counts: older ones are aborted, and their answers are dropped.
async function ask(task, content) {
  const mine = ++asked[task];
  if (running[task]) running[task].abort();
  running[task] = new AbortController();
  try {
    const answer = await post(task, content, running[task].signal);
    return mine === asked[task] && !answer.superseded ? answer : null;
  } catch (error) {
    if (mine !== asked[task] || error.name === "AbortError") return null;
    throw error;
  }
}

async function solve() {
  document.body.classList.add("stale");
  byId("state").textContent = "Solving …";
  const began = performance.now(), wanted = values;
  let answer, brief;
  try {
    const asks = { values, reference: reference(), width: width(), redraws: !curve.isFresh };
    brief = await ask("plan", { ...asks, brief: true });
    if (!brief || wanted !== values) return;
    if (!brief.later && !brief.whole) showBrief(brief, performance.now() - began);
    answer = brief.whole ? brief : await ask("plan", asks);
  } catch (error) {
    if (wanted !== values) return;
    document.body.classList.remove("stale");
    const rest = refuseFields(error.faults || []);
    byId("state").textContent = error.faults ? "This cannot be solved as it is: the plan below is the last one." : "";
    banner(error.faults ? rest.join("; ") : error.message);
    return;
  }
  if (!answer || wanted !== values) return;
  document.body.classList.remove("stale");
  banner(""); refuseFields([]);
  shown = { values: wanted, answer };
  showPlan(answer, performance.now() - began);
  if (!curve.isFresh) later("frontier", 0, trace);
}

async function trace(isAsked) {
  if (data.waits && isAsked !== true) {
    noCurve("The curve is computed when you ask for it.");
    byId("curve-wait").hidden = false;
    return;
  }
  byId("curve-wait").hidden = true;
  byId("curve-lead").textContent = data.serves ? "Drawing the curve: a fleet is solved for each point …" : "Computing the curve …";
  const wanted = withoutAxis(values);
  let drawn = null;  // the curve of a service comes with a few points first, and then with more of them
  const mine = ++traces;
  document.body.classList.add("tracing");
  try {
    for (const points of data.serves ? [4, 5, 7, 10] : [0]) {
      const answer = await ask("frontier", { values, width: width(), ...(points ? { points } : {}) });
      if (!answer || !isSame(wanted, withoutAxis(values))) return;
      if (answer.empty) noCurve("There is " + answer.empty + ".");
      else { (answer.steps ? showSteps : showCurve)(answer); markNow(); }
      drawn = answer;
      if (!answer.steps || answer.whole) break;
      byId("curve-lead").textContent = answer.figure.lead + " More points are being computed …";
    }
  } catch (error) {
    if (drawn) byId("curve-lead").textContent = drawn.figure.lead + " More points were not computed: " + error.message;
    else noCurve(error.faults ? error.faults.map((one) => one.what).join("; ") : error.message);
  } finally {
    if (mine === traces) document.body.classList.remove("tracing");
  }
}

function later(task, ms, run) { clearTimeout(wait[task]); wait[task] = setTimeout(run, ms); }

// The plan alone, as soon as it is known; alternatives and reasons follow.
function showBrief(answer, ms) {
  byId("headline").textContent = answer.headline;
  showWarnings(answer.warnings);
  showTiles(answer.tiles);
  byId("state").textContent = "Plan after " + Math.round(ms) + " ms; looking for alternatives …";
  document.body.classList.add("planned");
}

const hoursNow = () => {
  const text = axis ? valueOf(values, axis) : "", found = /^([\d.]+)\s*(h|d|min|w)?$/.exec(text);
  const scale = { h: 1, d: 24, min: 1 / 60, w: 168 };
  if (found) return Number(found[1]) * scale[found[2] || "h"];
  return shown && shown.answer.within !== null ? shown.answer.within : curve.found ? curve.found.points.at(-1).h : 1;
};

const markNow = () => { if (curve.isFresh) { if (curve.steps) readStep(); else readCurve(hoursNow()); } };

function showPlan(answer, ms) {
  const clock = ms < 1000 ? Math.round(ms) + " ms" : (ms / 1000).toFixed(1) + " s";
  byId("state").textContent = "Solved in " + clock + ", " + answer.made;
  byId("headline").textContent = answer.headline;
  showWarnings(answer.warnings);
  showTiles(answer.tiles);
  byId("why").hidden = answer.jobs.length > 0;
  byId("plan").hidden = !answer.jobs.length;
  showWhy(answer);
  const facts = byId("facts");
  facts.replaceChildren();
  for (const [name, rows] of answer.jobs) {
    if (answer.jobs.length > 1) facts.append(make("h3", name));
    const list = make("dl", undefined, "facts");
    for (const [label, text] of rows) list.append(make("dt", label), make("dd", text));
    facts.append(list);
  }
  if (answer.more_jobs) facts.append(make("p", answer.more_jobs + " more jobs are in the timetable and in the bill.", "muted"));
  const open = new Set([...document.querySelectorAll("#figures details[open]")].map((one) => one.closest("section").id));
  byId("figures").replaceChildren(...answer.figures.map(figure));
  for (const id of open) { const one = document.querySelector("#" + CSS.escape(id) + " details"); if (one) one.open = true; }
  byId("command").textContent = answer.command;
  showChange(answer.change);
  showPins();
  markNow();
}

// Of plans that cost nearly the same one is preferred for other reasons: the curve shows the least cost itself.
function tieText(best) {
  if (!shown || !isSame(shown.values, values) || shown.answer.usd === null) return "";
  const more = shown.answer.usd - best.u;
  return more >= 0.005 ? " The plan costs " + money(more) + " more, a near tie." : "";
}

// What the plan leaves out of the job asked for, right below the headline.
function showWarnings(texts) {
  byId("warnings").replaceChildren(...texts.map((text) => {
    const line = document.createElement("p");
    line.className = "warning";
    line.textContent = "! " + text;
    return line;
  }));
}

function showTiles(tiles, isQuick) {
  byId("tiles").replaceChildren(...tiles.map(([what, value, range]) => {
    const box = make("div", undefined, isQuick ? "quick" : ""), cell = make("dd");
    cell.append(make("strong", value));
    if (range) cell.append(make("span", range));
    box.append(make("dt", what), cell);
    return box;
  }));
}

function showWhy(answer) {
  const text = byId("why-text");
  text.replaceChildren();
  if (answer.jobs.length) return;
  if (answer.relaxations.length) {
    text.append(make("p", "The smallest changes that give a plan, each verified by solving:"));
    const list = make("ol");
    for (const [words, setting] of answer.relaxations) {
      const item = make("li", words);
      if (setting) item.append(make("br"), make("code", setting));
      list.append(item);
    }
    text.append(list);
  } else text.append(make("p", "No candidate meets all limits, and no small change was found that gives one."));
  if (answer.misses.length) {
    const list = make("ul");
    for (const one of answer.misses) list.append(make("li", one));
    text.append(make("h3", "Near misses"), list);
  }
}

function showChange(change) {
  byId("change-summary").textContent = change.summary;
  const rows = change.rows.map((cells) => cells.map((cell, i) => i === 3 ? make("td", cell, (/^\+/.test(cell) ? "up" : /^-/.test(cell) ? "down" : "")) : cell));
  byId("change-table").replaceChildren(table("What changed", ["", { "": "as opened", last: "before" }[byId("reference").value] || byId("reference").selectedOptions[0].textContent, "now", "difference"], rows, true));
  byId("change-reasons").replaceChildren(...change.reasons.map((one) => make("li", one)));
}

function reference() {
  const chosen = byId("reference").value;
  return chosen === "last" ? before : chosen === "" ? {} : pins[Number(chosen)].values;
}

function showPins() {
  const select = byId("reference"), chosen = select.value;
  const options = [["", "the scenario as opened"], ["last", "before the last change"], ...pins.map((_, i) => [String(i), "plan " + letters[i]])];
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  select.value = options.some(([value]) => value === chosen) ? chosen : "";
  byId("pin").disabled = pins.length >= letters.length || !shown;
  byId("pin-hint").hidden = pins.length > 0;
  if (!pins.length || !shown) { byId("pins").replaceChildren(); return; }
  const all = [...pins.map((pin, i) => ["plan " + letters[i], pin]), ["now", shown]];
  const labels = [...new Set(all.flatMap(([, one]) => one.answer.compared.map(([label]) => label)))];
  const row = (label, read) => [label, ...all.map(([, one]) => read(one.answer, one.values))];
  const rows = [
    ...labels.map((label) => row(label, (a) => (a.compared.find(([name]) => name === label) || ["", ""])[1])),
    row("changed", (_, v) => Object.entries(v).map(([key, value]) => fields.get(key).control.label + " " + (configNames.get(value) || value || "none")).join("; ") || "nothing"),
    ["", ...all.map(([, one], i) => {
      const cell = make("td");
      if (one === shown) return cell;
      const use = make("button", "Use"), drop = make("button", "Remove");
      for (const [button, what] of [[use, "Use"], [drop, "Remove"]]) { button.type = "button"; button.setAttribute("aria-label", what + " plan " + letters[i]); }
      use.addEventListener("click", () => move(pins[i].values));
      drop.addEventListener("click", () => { pins.splice(i, 1); byId("reference").value = ""; writeAddress(); showPins(); later("plan", 0, solve); });
      cell.append(use, " ", drop);
      return cell;
    })],
  ];
  byId("pins").replaceChildren(table("Pinned plans", ["", ...all.map(([name]) => name)], rows, true));
}

// The address carries what differs from the scenario as opened, and what is pinned.
function writeAddress() {
  const parameters = new URLSearchParams(values);
  for (const pin of pins) parameters.append("pin", new URLSearchParams(pin.values).toString());
  const text = parameters.toString();
  history.replaceState(null, "", text ? "#" + text : location.pathname);
}

function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1)), pinned = parameters.getAll("pin").slice(0, letters.length);
  const known = (from) => Object.fromEntries([...from].filter(([key]) => fields.has(key)));
  parameters.delete("pin");
  return [known(parameters), pinned.map((one) => known(new URLSearchParams(one)))];
}

const isSame = (one, other) => JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort());
const withoutAxis = (from) => Object.fromEntries(Object.entries(from).filter(([key]) => key !== data.axis));

// A change of the values: edits of one field that follow closely are one step to undo.
function move(next, key = "", ms = 0, isUndo = false) {
  next = Object.fromEntries(Object.entries(next).filter(([name, value]) => value !== fields.get(name).control.value));
  if (isSame(next, values)) return;
  const now = Date.now(), isEdit = key && key === lastEdit.key && now - lastEdit.at < 2000;
  if (!isUndo && !isEdit) past.push(values);
  if (shown && (isUndo || !isEdit)) before = shown.values;  // not values that were refused: they have no plan
  lastEdit = { key, at: now };
  if (!isSame(withoutAxis(next), withoutAxis(values))) staleCurve();
  values = next;
  showFields(values, key);
  byId("undo").disabled = !past.length;
  byId("reset").disabled = !Object.keys(values).length;
  writeAddress();
  document.body.classList.remove("planned");
  document.body.classList.add("stale");
  later("plan", ms, solve);
}

function moveTo(hours, isExact) {
  const text = (isExact ? Math.ceil(hours * 1e4) / 1e4 : Number(hours.toFixed(hours < 10 ? 2 : 1))) + "h";
  const best = readCurve(parseFloat(text), !isExact);
  if (!axis) return;
  if (best) {
    const finish = best.e !== undefined ? [["likely finish", time(best.e), ""]] : [];
    showTiles([["expected cost", money(best.u), "read off the curve"], ...finish, ["ends by", time(best.h), "at the confidence asked for"]], true);
    const jobs = curve.found.plans[best.plan].jobs;
    if (jobs.length === 1) byId("headline").textContent = jobs[0].facts[0][1] + ", " + money(best.u);
  }
  move({ ...values, [axis.key]: text }, "slider", 300);
}

async function takeConfig(key, file) {
  if (file.size > 1e6) { fields.get(key).refuse("larger than 1 MB: give the config.json of a model"); return; }
  try {
    const answer = await post("model", { name: file.name, text: await file.text() });
    configNames.set(answer.model, answer.name);
    move({ ...values, [key]: answer.model });
  } catch (error) {
    if (error.faults) refuseFields(error.faults); else banner(error.message);
  }
}

async function takeFile(kind) {
  const names = { scenario: ["yaml", "application/yaml"], plan: ["json", "application/json"], report: ["html", "text/html"], exports: ["zip", "application/zip"] };
  const state = byId("file-state"), [suffix, type] = names[kind];
  state.textContent = "Writing: " + kind + " …";
  try {
    const answer = await post("file", { values, file: kind });
    const link = make("a");
    link.href = URL.createObjectURL(new Blob([answer.base64 ? Uint8Array.from(atob(answer.base64), (one) => one.charCodeAt(0)) : answer.text], { type }));
    link.download = (data.name.replace(/[^\w.-]+/g, "-").slice(0, 60) || "planner") + (kind === "scenario" ? "" : "-" + kind) + "." + suffix;
    document.body.append(link); link.click(); link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    state.textContent = link.download + " is downloaded.";
  } catch (error) {
    state.textContent = error.faults ? error.faults.map((one) => one.what).join("; ") : error.message;
  }
}

async function start() {
  let pinned;
  [values, pinned] = readAddress();
  before = {}; past = [];
  showFields(values);
  byId("reset").disabled = !Object.keys(values).length;
  for (const one of pinned) {
    try { pins.push({ values: one, answer: await post("plan", { values: one, reference: {}, width: width() }) }); } catch { /* a pin that has no answer any more is left out */ }
  }
  showPins();
  later("plan", 0, solve);
}

buildFields((key, value, isDone) => {
  move({ ...values, [key]: value }, key, isDone ? 0 : 400);
  if (isDone) lastEdit.key = "";  // the next edit is a step of its own
});
byId("fields").addEventListener("submit", (event) => event.preventDefault());
slider.addEventListener("input", () => {
  if (curve.steps) stepTo(curve.steps[Number(slider.value)]);
  else moveTo(curve.hoursAt(Number(slider.value) / places), false);
});
if (!axis) byId("within-label").textContent = "Finish within, along the curve";
byId("undo").addEventListener("click", () => { const last = past.pop(); lastEdit.key = ""; if (last) move(last, "", 0, true); byId("undo").disabled = !past.length; });
byId("reset").addEventListener("click", () => move({}));
byId("trace").addEventListener("click", () => trace(true));
byId("retry").addEventListener("click", () => later("plan", 0, solve));
byId("reference").addEventListener("change", () => later("plan", 0, solve));
byId("pin").addEventListener("click", () => { pins.push(shown); writeAddress(); showPins(); });
for (const button of document.querySelectorAll("button.file")) button.addEventListener("click", () => takeFile(button.dataset.file));
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
addEventListener("hashchange", () => { const [next] = readAddress(); move(next); });
let drawnFor = width();
addEventListener("resize", () => later("resize", 300, () => { if (Math.abs(width() - drawnFor) > 40) { drawnFor = width(); staleCurve(); solve(); } }));
addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
addEventListener("dragleave", () => document.body.classList.remove("dropping"));
addEventListener("drop", (event) => {
  event.preventDefault(); document.body.classList.remove("dropping");
  const model = data.controls.find((one) => one.kind === "model"), file = event.dataTransfer.files[0];
  if (model && file) takeConfig(model.key, file);
});
start();
