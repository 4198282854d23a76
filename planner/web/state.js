// What the page knows, and how it asks the server.
export const byId = (id) => document.getElementById(id);
export const data = JSON.parse(byId("data").textContent);
export const state = {
  values: {},      // what differs from the scenario as opened
  before: {},      // the values before the last change
  past: [],        // the steps that Undo goes back
  pins: [],
  shown: null,     // the values and the answer of the plan on the page
  last: null,      // the plan that was on the page before it
};
export const axis = data.controls.find((one) => one.key === data.axis);  // the field along which the curve is drawn
export const width = () => Math.round(Math.min(1000, Math.max(280, byId("results").clientWidth - 36)));
export const isSame = (one, other) => JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort());
export const withoutAxis = (from) => Object.fromEntries(Object.entries(from).filter(([key]) => key !== data.axis));

const session = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
const asked = {}, running = {}, waits = {};

export class Failed extends Error {
  constructor(text, faults, isDead = false) { super(text); this.faults = faults; this.isDead = isDead; }
}

export async function post(task, content, signal) {
  let response, answer;
  try {
    response = await fetch("/api/" + task + (data.shipped ? "?scenario=" + encodeURIComponent(data.shipped) : ""), {
      method: "POST", signal, credentials: "same-origin", cache: "no-store",
      headers: { "Content-Type": "application/json", "X-Planner-Token": data.token },
      body: JSON.stringify({ session, ...content }),
    });
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed("The server does not answer: the figures are those of the last answer. Start planner app again, and append what follows # in this address to the new one.", undefined, true);
  }
  if (response.ok && !answer.error && !answer.faults) return answer;
  throw new Failed(answer.error || "", answer.faults);
}

// The newest request counts: older ones are aborted, and their answers are dropped.
export async function ask(task, content) {
  const mine = asked[task] = (asked[task] || 0) + 1;
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

// Nobody waits any more: the page drops the answers, and the server ends what it computes for this page.
export function stopAll() {
  for (const task of Object.keys(running)) { asked[task] += 1; running[task].abort(); }
  post("stop", {}).catch(() => {});
}

export function later(task, ms, run) { clearTimeout(waits[task]); waits[task] = setTimeout(run, ms); }

export function banner(text, isDead = false) {
  byId("banner").hidden = !text;
  byId("banner-text").textContent = text || "";
  document.body.classList.toggle("dead", isDead);
}
