// The page: a change of a field is a step in the history; each step is solved, and its plan and curve are shown.
import { allOthers, askWhy, curvePicture, showChanges, showChips, showFacts, showFigures, showOthers, showStrip, showTiles, showWayOut, showWarnings } from "./answer.js";
import { curve, noCurve, places, readCurve, showCurve, slider, staleCurve } from "./curve.js";
import { make, money, table, time, timeUp } from "./draw.js";
import { buildFields, configNames, fields, refuseFields, showFields, valueOf } from "./fields.js";
import { ask, axis, banner, byId, data, isSame, later, post, state, stopAll, width, withoutAxis } from "./state.js";
import { readStep, showSteps, stepTo } from "./steps.js";

const letters = "ABC";
let lastEdit = { key: "", at: 0 }, traces = 0, clock = 0;

// A solve that takes longer than a moment shows how long, and can be stopped.
const SLOW_MS = 1500;
function startClock() {
  const began = performance.now();
  clearInterval(clock);
  clock = setInterval(() => {
    const ms = performance.now() - began;
    if (ms < SLOW_MS) return;
    byId("state").textContent = "Solving for " + Math.round(ms / 1000) + " s …";
    byId("stop").hidden = false;
  }, 500);
}

function endClock() { clearInterval(clock); byId("stop").hidden = true; }

async function solve() {
  document.body.classList.add("stale");
  byId("state").textContent = "Solving …";
  startClock();
  const began = performance.now(), wanted = state.values;
  let answer, brief;
  try {
    const asks = { values: wanted, reference: reference(), width: width(), redraws: !curve.isFresh };
    brief = await ask("plan", { ...asks, brief: true });
    if (!brief || wanted !== state.values) return;
    if (!brief.later && !brief.whole) showBrief(brief, performance.now() - began);
    answer = brief.whole ? brief : await ask("plan", asks);
  } catch (error) {
    if (wanted !== state.values) return;
    endClock();
    document.body.classList.remove("stale");
    const rest = refuseFields(error.faults || []);
    byId("state").textContent = error.faults ? "This cannot be solved as it is: the plan below is the last one." : "";
    banner(error.faults ? rest.join("; ") : error.message, error.isDead);
    return;
  }
  if (!answer || wanted !== state.values) return;
  endClock();
  document.body.classList.remove("stale");
  banner(""); refuseFields([]);
  if (state.shown && !isSame(state.shown.values, wanted)) state.last = state.shown;
  state.shown = { values: wanted, answer };
  showPlan(answer, performance.now() - began);
  if (!curve.isFresh) later("frontier", 0, trace);
}

// Back to the plan that is shown, without solving for it again.
function stop() {
  const shown = state.shown;
  stopAll(); endClock();
  document.body.classList.remove("stale");
  if (!shown) { byId("state").textContent = "Stopped."; banner("Stopped before there was a plan."); return; }
  if (state.past.length && isSame(state.past.at(-1), shown.values)) state.past.pop();
  state.values = shown.values;
  lastEdit.key = "";
  showFields(state.values, "");
  byId("undo").disabled = !state.past.length;
  byId("reset").disabled = !Object.keys(state.values).length;
  writeAddress(false);
  banner(""); refuseFields([]);
  showPlan(shown.answer, 0);
  byId("state").textContent = "Stopped: this is the plan before the change.";
  if (!curve.of || !isSame(curve.of, withoutAxis(shown.values))) { later("frontier", 0, trace); return; }
  curve.isFresh = true;
  document.body.classList.remove("late");
  markNow();
}

async function trace(isAsked) {
  if (data.waits && isAsked !== true) {
    noCurve("The curve is computed when you ask for it.");
    byId("curve-wait").hidden = false;
    return;
  }
  byId("curve-wait").hidden = true;
  byId("curve-lead").textContent = data.serves ? "Drawing the curve: a fleet is solved for each point …" : "Computing the curve …";
  const wanted = withoutAxis(state.values);
  let drawn = null;  // the curve of a service comes with a few points first, and then with more of them
  const mine = ++traces;
  document.body.classList.add("tracing");
  try {
    for (const points of data.serves ? [4, 5, 7, 10] : [0]) {
      const answer = await ask("frontier", { values: state.values, width: width(), ...(points ? { points } : {}) });
      if (!answer || !isSame(wanted, withoutAxis(state.values))) return;
      if (answer.empty) noCurve("There is " + answer.empty + ".");
      else { curve.of = wanted; if (answer.steps) showSteps(answer, move); else showCurve(answer, moveTo); markNow(); }
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

// The plan alone, as soon as it is known; alternatives and reasons follow.
function showBrief(answer, ms) {
  byId("headline").textContent = answer.headline;
  showWarnings(answer.warnings);
  showTiles(answer.tiles);
  byId("state").textContent = "Plan after " + Math.round(ms) + " ms; looking for alternatives …";
  document.body.classList.add("planned");
}

const hoursNow = () => {
  const text = axis ? valueOf(state.values, axis) : "", found = /^([\d.]+)\s*(h|d|min|w)?$/.exec(text);
  const scale = { h: 1, d: 24, min: 1 / 60, w: 168 }, shown = state.shown;
  curve.hasDeadline = !!found;
  if (found) return Number(found[1]) * scale[found[2] || "h"];
  return shown && shown.answer.within !== null ? shown.answer.within : curve.found ? curve.found.points.at(-1).h : 1;
};

function markNow() {
  if (!curve.isFresh) return;
  if (curve.steps) { readStep(); return; }
  readCurve(hoursNow(), false, tieText);
  if (state.shown && curve.plan) curve.plan(state.shown.answer);
}

function showPlan(answer, ms) {
  const taken = ms < 1000 ? Math.round(ms) + " ms" : (ms / 1000).toFixed(1) + " s";
  byId("state").textContent = "Solved in " + taken + ", " + answer.made;
  byId("headline").textContent = answer.headline;
  showWarnings(answer.warnings);
  showTiles(answer.tiles);
  showWayOut(answer, move);
  showChips(answer.chips);
  showStrip();
  showChanges(answer, move);
  showFacts(answer);
  showOthers(answer.others);
  byId("others-lead").textContent = "The plan and the ways that it names. A heading sorts.";
  byId("why-answer").hidden = true;
  showFigures(answer);
  byId("command").textContent = answer.command;
  showChange(answer.change);
  showPins();
  markNow();
}

// Of plans that cost nearly the same one is preferred for other reasons: the curve shows the least cost itself.
function tieText(best) {
  const shown = state.shown;
  if (!shown || !isSame(shown.values, state.values) || shown.answer.usd === null) return "";
  const more = shown.answer.usd - best.u;
  return more >= 0.005 ? " The plan costs " + money(more) + " more, a near tie." : "";
}

function showChange(change) {
  byId("change-summary").textContent = change.summary;
  const rows = change.rows.map((cells) => cells.map((cell, i) => i === 3 ? make("td", cell, (/^\+/.test(cell) ? "up" : /^-/.test(cell) ? "down" : "")) : cell));
  byId("change-table").replaceChildren(table("What changed", ["", { "": "as opened", last: "before" }[byId("reference").value] || byId("reference").selectedOptions[0].textContent, "now", "difference"], rows, true));
  byId("change-reasons").replaceChildren(...change.reasons.map((one) => make("li", one)));
}

function reference() {
  const chosen = byId("reference").value;
  return chosen === "last" ? state.before : chosen === "" ? {} : state.pins[Number(chosen)].values;
}

function showPins() {
  const { pins, shown } = state, select = byId("reference"), chosen = select.value;
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
      drop.addEventListener("click", () => { pins.splice(i, 1); byId("reference").value = ""; writeAddress(false); showPins(); later("plan", 0, solve); });
      cell.append(use, " ", drop);
      return cell;
    })],
  ];
  byId("pins").replaceChildren(table("Pinned plans", ["", ...all.map(([name]) => name)], rows, true));
}

// The address carries what differs from the scenario as opened, and what is pinned; each step is one of the history.
function writeAddress(isStep) {
  const parameters = new URLSearchParams(state.values);
  for (const pin of state.pins) parameters.append("pin", new URLSearchParams(pin.values).toString());
  const text = parameters.toString();
  history[isStep ? "pushState" : "replaceState"](null, "", text ? "#" + text : location.pathname + location.search);
}

function readAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1)), pinned = parameters.getAll("pin").slice(0, letters.length);
  const known = (from) => Object.fromEntries([...from].filter(([key]) => fields.has(key)));
  parameters.delete("pin");
  return [known(parameters), pinned.map((one) => known(new URLSearchParams(one)))];
}

// A change of the values: edits of one field that follow closely are one step to undo.
function move(next, key = "", ms = 0, isBack = false) {
  next = Object.fromEntries(Object.entries(next).filter(([name, value]) => value !== fields.get(name).control.value));
  if (isSame(next, state.values)) return;
  const now = Date.now(), isEdit = key && key === lastEdit.key && now - lastEdit.at < 2000;
  if (!isBack && !isEdit) state.past.push(state.values);
  if (state.shown && (isBack || !isEdit)) state.before = state.shown.values;  // not values that were refused: they have no plan
  lastEdit = { key, at: now };
  if (!isSame(withoutAxis(next), withoutAxis(state.values))) staleCurve();
  state.values = next;
  showFields(next, key);
  byId("undo").disabled = !state.past.length;
  byId("reset").disabled = !Object.keys(next).length;
  writeAddress(!isBack && !isEdit);
  document.body.classList.remove("planned");
  document.body.classList.add("stale");
  later("plan", ms, solve);
}

function moveTo(hours, isExact) {
  const text = (isExact ? Math.ceil(hours * 1e4) / 1e4 : Number(hours.toFixed(hours < 10 ? 2 : 1))) + "h";
  curve.hasDeadline = !!axis;
  const best = readCurve(parseFloat(text), !isExact);
  if (!axis) return;
  if (best) {
    const finish = best.e !== undefined ? [["likely", time(best.e), ""]] : [];
    showTiles([["cost", money(best.u), "read off the curve"], ...finish, ["ends by", timeUp(best.h), "at the confidence asked for"]], true);
    const jobs = curve.found.plans[best.plan].jobs;
    if (jobs.length === 1) byId("headline").textContent = jobs[0].facts[0][1] + ", " + money(best.u);
  }
  move({ ...state.values, [axis.key]: text }, "slider", 300);
}

async function takeConfig(key, file) {
  if (file.size > 1e6) { fields.get(key).refuse("larger than 1 MB: give the config.json of a model"); return; }
  try {
    const answer = await post("model", { name: file.name, text: await file.text() });
    configNames.set(answer.model, answer.name);
    move({ ...state.values, [key]: answer.model });
  } catch (error) {
    if (error.faults) refuseFields(error.faults); else banner(error.message, error.isDead);
  }
}

const baseName = () => data.name.replace(/[^\w.-]+/g, "-").slice(0, 60) || "planner";

function download(content, name) {
  const link = make("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  document.body.append(link); link.click(); link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  byId("file-state").textContent = name + " is downloaded.";
}

async function takeFile(kind) {
  const names = { scenario: ["yaml", "application/yaml"], plan: ["json", "application/json"], report: ["html", "text/html"], exports: ["zip", "application/zip"] };
  const said = byId("file-state"), [suffix, type] = names[kind];
  said.textContent = "Writing: " + kind + " …";
  try {
    const answer = await post("file", { values: state.values, file: kind });
    const content = new Blob([answer.base64 ? Uint8Array.from(atob(answer.base64), (one) => one.charCodeAt(0)) : answer.text], { type });
    download(content, baseName() + (kind === "scenario" ? "" : "-" + kind) + "." + suffix);
  } catch (error) {
    said.textContent = error.faults ? error.faults.map((one) => one.what).join("; ") : error.message;
  }
}

async function copy(text, said) {
  let isDone = true;
  try { await navigator.clipboard.writeText(text); } catch { isDone = false; }
  byId("file-state").textContent = isDone ? said : "Copy it from here: " + text;
}

async function start() {
  const [values, pinned] = readAddress();
  state.values = values;
  showFields(values);
  byId("reset").disabled = !Object.keys(values).length;
  for (const one of pinned) {
    try { state.pins.push({ values: one, answer: await post("plan", { values: one, reference: {}, width: width() }) }); } catch { /* a pin that has no answer any more is left out */ }
  }
  showPins();
  later("plan", 0, solve);
}

buildFields((key, value, isDone) => {
  move({ ...state.values, [key]: value }, key, isDone ? 0 : 400);
  if (isDone) lastEdit.key = "";  // the next edit is a step of its own
}, takeConfig);
byId("fields").addEventListener("submit", (event) => event.preventDefault());
slider.addEventListener("input", () => {
  if (curve.steps) stepTo(curve.steps[Number(slider.value)], move);
  else { const hours = curve.hoursAt(Number(slider.value) / places); moveTo(hours, false); curve.card(hours); }
});
slider.addEventListener("focus", () => { if (curve.card && curve.isFresh) curve.card(hoursNow()); });
slider.addEventListener("blur", () => { byId("card").hidden = true; });
if (!axis) byId("within-label").textContent = "Finish within, along the curve";
byId("undo").addEventListener("click", () => {
  const last = state.past.pop();
  lastEdit.key = "";
  if (last) move(last, "", 0, true);
  byId("undo").disabled = !state.past.length;
});
byId("reset").addEventListener("click", () => move({}));
byId("stop").addEventListener("click", stop);
byId("trace").addEventListener("click", () => trace(true));
byId("retry").addEventListener("click", () => later("plan", 0, solve));
byId("reference").addEventListener("change", () => later("plan", 0, solve));
byId("pin").addEventListener("click", () => { state.pins.push(state.shown); writeAddress(false); showPins(); });
byId("others-all").addEventListener("click", allOthers);
byId("why-form").addEventListener("submit", (event) => { event.preventDefault(); if (byId("why-gpu").value) askWhy(byId("why-gpu").value); });
const gpus = data.controls.find((one) => one.key === "gpus");
byId("why-gpu").replaceChildren(...(gpus ? gpus.choices : []).map(([name]) => new Option(name)));
for (const button of document.querySelectorAll("button.file")) button.addEventListener("click", () => takeFile(button.dataset.file));
byId("picture").addEventListener("click", async () => {
  try { download(await curvePicture(), baseName() + "-curve.png"); } catch (error) { byId("file-state").textContent = error.message; }
});
for (const button of document.querySelectorAll("button.link")) button.addEventListener("click", () => copy(location.href, "The address of this page is copied: it carries what was changed."));
byId("copy-command").addEventListener("click", () => copy(byId("command").textContent, "The command is copied."));
byId("scenario").addEventListener("change", () => { location.href = "/" + (byId("scenario").value ? "?scenario=" + encodeURIComponent(byId("scenario").value) : ""); });
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
addEventListener("popstate", () => {
  const [next] = readAddress();
  if (state.past.length && isSame(state.past.at(-1), next)) state.past.pop();
  lastEdit.key = "";
  move(next, "", 0, true);
  byId("undo").disabled = !state.past.length;
});
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
