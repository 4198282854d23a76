// The fields: each knows how to show a value and to read it; values are texts, as in the address.
import { make } from "./draw.js";
import { byId, data } from "./state.js";

export const fields = new Map();
export const configNames = new Map();
let takeConfig = null;

// The first fields are those that most questions change; the others are folded under their headings.
export function buildFields(changed, config) {
  takeConfig = config;
  const models = make("datalist");
  models.id = "models";
  for (const name of data.models) models.append(new Option(name));
  document.body.append(models);
  const form = byId("fields"), groups = new Map(), hasSeveral = new Set(data.controls.map((one) => one.group)).size > 2;
  for (const control of data.controls) {
    const name = hasSeveral ? control.group : "";
    if (!groups.has(name)) {
      const open = make("div", undefined, "card"), folds = make("div", undefined, "folds");
      if (name) open.append(make("h2", name));
      open.append(folds);
      form.append(open);
      groups.set(name, { folds, by: new Map() });
    }
    const { folds, by } = groups.get(name), one = field(control, changed);
    if (!control.fold) folds.before(one.box);
    else {
      if (!by.has(control.fold)) {
        const more = make("details", undefined, "more");
        more.append(make("summary", control.fold));
        folds.append(more); by.set(control.fold, more);
      }
      by.get(control.fold).append(one.box);
    }
    fields.set(control.key, one);
  }
}

function field(control, changed) {
  const box = make("div", undefined, "field"), id = "field-" + control.key;
  const wrong = make("p", undefined, "wrong");
  wrong.id = id + "-wrong"; wrong.hidden = true;
  const parts = { switch: switchField, one: oneField, choices: listField, names: listField }[control.kind] || textField;
  const one = { control, box, ...parts(control, id, box, (quick) => changed(control.key, one.read(), quick)) };
  box.append(wrong);
  one.refuse = (text) => {
    wrong.textContent = text; wrong.hidden = !text;
    box.classList.toggle("bad", !!text);
    if (text) { one.input.setAttribute("aria-invalid", "true"); one.input.setAttribute("aria-describedby", wrong.id); }
    else { one.input.removeAttribute("aria-invalid"); one.input.removeAttribute("aria-describedby"); }
    const around = wrong.closest("details.more");
    if (text && around) around.open = true;
  };
  return one;
}

function textField(control, id, box, changed) {
  const label = make("label", control.label), input = make("input");
  label.htmlFor = id; input.id = id; input.type = "text"; input.spellcheck = false; input.maxLength = 400;
  if (control.kind !== "model" && control.kind !== "hours") input.inputMode = control.kind === "text" ? "text" : "decimal";
  box.append(label, input);
  if (control.hint) box.append(make("p", control.hint, "hint"));
  let shown = null;
  if (control.kind === "model") {
    input.setAttribute("list", "models");
    const drop = make("label", "or a config.json: ", "drop"), file = make("input");
    file.type = "file"; file.accept = ".json,application/json"; file.id = id + "-file";
    file.addEventListener("change", () => { if (file.files.length) takeConfig(control.key, file.files[0]); file.value = ""; });
    drop.append(file); box.append(drop);
  }
  input.addEventListener("input", () => { shown = null; changed(false); });
  input.addEventListener("change", () => changed(true));
  return {
    input,
    read: () => shown !== null ? shown : input.value.trim(),
    show: (value) => { shown = configNames.has(value) ? value : null; input.value = configNames.get(value) || value; },
  };
}

function switchField(control, id, box, changed) {
  const label = make("label", undefined, "tick"), input = make("input");
  input.type = "checkbox"; input.id = id;
  label.append(input, control.label); box.append(label);
  input.addEventListener("change", () => changed(true));
  return { input, read: () => input.checked ? "on" : "off", show: (value) => { input.checked = value === "on"; } };
}

function oneField(control, id, box, changed) {
  const label = make("label", control.label), input = make("select");
  label.htmlFor = id; input.id = id;
  input.append(...control.choices.map(([name, words]) => new Option(words, name)));
  box.append(label, input);
  input.addEventListener("change", () => changed(true));
  return { input, read: () => input.value, show: (value) => { input.value = value; } };
}

// Ticks: of names all that may be used; of choices none means that the planner chooses.
function listField(control, id, box, changed) {
  const isNames = control.kind === "names", names = control.choices.map(([name]) => name);
  const details = make("details"), summary = make("summary", control.label + ": "), now = make("span", "", "now");
  const set = make("fieldset"), ticks = [];
  summary.id = id; summary.append(now);
  set.append(make("legend", control.label));
  if (isNames) {
    const some = make("p", undefined, "some");
    for (const [text, on] of [["All", true], ["None", false]]) {
      const button = make("button", text);
      button.type = "button";
      button.setAttribute("aria-label", text + " of " + control.label);
      button.addEventListener("click", () => { for (const tick of ticks) tick.checked = on; say(); changed(true); });
      some.append(button);
    }
    set.append(some);
  }
  control.choices.forEach(([name, words], index) => {
    const label = make("label", undefined, "tick"), tick = make("input");
    tick.type = "checkbox"; tick.value = name; tick.id = id + "-" + index;
    tick.addEventListener("change", () => { say(); changed(true); });
    label.append(tick, words); set.append(label); ticks.push(tick);
  });
  const on = () => ticks.filter((tick) => tick.checked).map((tick) => tick.value);
  function say() {
    const chosen = on();
    if (isNames) now.textContent = chosen.length === names.length ? "all " + names.length : chosen.length + " of " + names.length;
    else now.textContent = chosen.length ? control.choices.filter(([name]) => chosen.includes(name)).map(([, words]) => words).join(", ") : control.may_be_empty ? "the planner chooses" : "none";
  }
  details.append(summary, set); box.append(details);
  return {
    input: summary,
    read: () => {
      const chosen = on();
      if (!isNames) return chosen.join(",");
      if (chosen.length === names.length) return "";
      if (!chosen.length) return "!";  // no tick: refused by the server, for an empty text means that all may be used
      const off = names.filter((name) => !chosen.includes(name));
      return off.length <= chosen.length ? "!" + off.join(",") : chosen.join(",");
    },
    show: (value) => {
      const listed = value.replace(/^!/, "").split(",").filter(Boolean), forbids = value.startsWith("!");
      for (const tick of ticks) tick.checked = isNames && (!value || forbids && listed.length) ? !listed.includes(tick.value) : listed.includes(tick.value);
      say();
    },
  };
}

export const valueOf = (values, control) => control.key in values ? values[control.key] : control.value;

export function showFields(values, except) {
  for (const one of fields.values()) {
    if (one.control.key !== except) one.show(valueOf(values, one.control));
    one.box.classList.toggle("changed", one.control.key in values);
  }
}

export function refuseFields(faults) {
  const texts = new Map();
  for (const fault of faults) {
    const text = fault.what + (fault.fix ? ": " + fault.fix : "");
    texts.set(fault.key, texts.has(fault.key) ? texts.get(fault.key) + "; " + text : text);
  }
  for (const [key, one] of fields) one.refuse(texts.get(key) || "");
  return [...texts].filter(([key]) => !fields.has(key)).map(([, text]) => text);
}
