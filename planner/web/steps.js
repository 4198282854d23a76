// The curve of a service: a line of steps that falls from point to point, each of which is a fleet that was solved.
import { showTiles } from "./answer.js";
import { curve, marker, nearest, slider, tellCurve } from "./curve.js";
import { draw, money } from "./draw.js";
import { valueOf } from "./fields.js";
import { axis, byId, state } from "./state.js";

const LATENCY = { ms: 1, s: 1000, m: 60000 };

export function showSteps(answer, move) {
  const svg = draw(answer.scene), mark = marker(svg, answer.scene.data);
  curve.found = null; curve.steps = answer.steps; curve.isFresh = true;
  curve.mark = (one) => mark.set(one.ms, one.ms, one.usd);
  svg.addEventListener("click", (event) => stepTo(nearest(answer.steps, (one) => mark.x(one.ms), mark.place(event)), move));
  byId("curve").replaceChildren(svg);
  tellCurve(answer.figure);
  slider.max = Math.max(1, answer.steps.length - 1);
  byId("within-label").textContent = "Limit on the time per token, along the curve";
  byId("along").hidden = answer.steps.length < 2;
  document.body.classList.remove("late");
}

// What the curve says of the limit of the plan: the point at that limit, or the one that is a little tighter.
export function readStep() {
  if (!curve.isFresh) return;
  const found = /^\s*([\d.]+(?:e[-+]?\d+)?)\s*(ms|s|m)\s*$/i.exec(valueOf(state.values, axis)), steps = curve.steps;
  const limit = found ? Number(found[1]) * LATENCY[found[2].toLowerCase()] : Infinity;
  const kept = steps.filter((one) => one.ms <= limit * (1 + 1e-9));
  if (kept.length) tellStep(kept.at(-1), kept.length - 1);
  else byId("said").textContent = "No point of the curve keeps " + valueOf(state.values, axis) + ": the tightest is " + steps[0].value + ".";
}

function tellStep(one, index) {
  const said = "Least dollars found at " + one.value + " per token: " + money(one.usd) + " a month, " + one.replicas + ".";
  byId("said").textContent = said;
  slider.value = index;
  slider.setAttribute("aria-valuetext", one.value + ", " + money(one.usd) + " a month");
  curve.mark(one);
}

export function stepTo(one, move) {
  if (!curve.isFresh || !one) return;
  tellStep(one, curve.steps.indexOf(one));
  showTiles([["a month", money(one.usd), "read off the curve"], ["per token", one.value, "limit"]], true);
  move({ ...state.values, [axis.key]: one.value }, "slider", 300);
}
