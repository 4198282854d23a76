// The curve and its slider: exact in the page, because the least cost within any hours follows from the data.
import { folded, draw, make, money, space, time, timeUp } from "./draw.js";
import { leastCost } from "./least_cost.js";
import { byId, state } from "./state.js";

export const curve = { found: null, steps: null, of: null, isFresh: false, hasDeadline: false, mark: null, plan: null, card: null };
export const slider = byId("within");
export const places = Number(slider.max);
const share = (value, low, high, log) => log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);

// A line across the picture with its name, a ring on the curve, and the plan; `d` has the ends of both axes.
export function marker(svg, d) {
  const add = (tag, kind) => { const e = document.createElementNS(space, tag); e.setAttribute("class", kind); svg.append(e); return e; };
  const line = add("line", "cursor"), ring = add("circle", "ring");
  ring.setAttribute("r", 6); line.setAttribute("y1", d.y0); line.setAttribute("y2", d.y1);
  svg.insertBefore(line, svg.querySelector(":scope > text"));  // behind names, which it would cross
  const write = (kind) => { const e = add("text", kind); e.setAttribute("font-size", 12); e.remove(); return e; };  // until it has a text
  const lineName = write("cursor-name"), plan = add("circle", "plan"), planName = write("plan-name");
  plan.setAttribute("r", 7);
  for (const one of [plan, planName]) one.setAttribute("visibility", "hidden");
  const middle = (d.x0 * 1 + d.x1 * 1) / 2;
  // A name stands on the side of its mark that has room.
  const put = (e, px, py, text) => {
    const isLeft = px > middle;
    e.textContent = text;
    svg.append(e);
    e.setAttribute("x", px + (isLeft ? -11 : 11)); e.setAttribute("y", py);
    e.setAttribute("text-anchor", isLeft ? "end" : "start");
  };
  // Names of points below the two names that move give way: no text crosses another one.
  const drawn = [...svg.querySelectorAll("text")];
  const clear = () => {
    if (!svg.isConnected) return;
    const moving = [lineName, planName].filter((e) => e.isConnected && e.getAttribute("visibility") !== "hidden").map((e) => e.getBBox());
    const crosses = (a) => moving.some((b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height);
    for (const e of drawn) {
      const box = e.getBBox(), isInside = box.x >= d.x0 - 1 && box.y + box.height < Math.max(d.y0, d.y1);
      if (isInside) e.setAttribute("visibility", crosses(box) ? "hidden" : "visible");
    }
  };
  const y = (u) => d.y0 + share(u, d.u0, d.u1, d.ulog) * (d.y1 - d.y0);
  const x = (h) => d.x0 + Math.min(1, Math.max(0, share(h, d.h0, d.h1, d.hlog))) * (d.x1 - d.x0);
  return {
    x,
    place: (event) => { const box = svg.getBoundingClientRect(); return (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width; },
    // `at` is where the line stands, `h` and `u` where the ring does; without them there is no ring. Hours that the
    // axis does not reach have no line: an arrow says on which side they are.
    set: (at, h, u, name) => {
      const isLater = at > d.h1 * (1 + 1e-9), isEarlier = at < d.h0 * (1 - 1e-9);
      line.setAttribute("visibility", isLater || isEarlier ? "hidden" : "visible");
      line.setAttribute("x1", x(at)); line.setAttribute("x2", x(at));
      const top = Math.min(d.y0, d.y1) + 12, bottom = Math.max(d.y0, d.y1) - 8;  // a curve falls: both ends leave room
      if (name) put(lineName, x(at), isEarlier ? bottom : top, isLater ? name + " \u2192" : isEarlier ? "\u2190 " + name : name);
      ring.setAttribute("visibility", u === undefined ? "hidden" : "visible");
      if (u !== undefined) { ring.setAttribute("cx", x(h)); ring.setAttribute("cy", y(u)); }
      clear();
    },
    plan: (h, u, name) => {
      for (const one of [plan, planName]) one.setAttribute("visibility", h === null || u === null ? "hidden" : "visible");
      if (h === null || u === null) return;
      plan.setAttribute("cx", x(h)); plan.setAttribute("cy", y(u));
      put(planName, x(h), y(u) + 20, name);
      clear();
    },
    top: (h, u) => ({ left: x(h), top: y(u) }),
  };
}

export const nearest = (points, x, px) => points.reduce((a, b) => Math.abs(x(b) - px) < Math.abs(x(a) - px) ? b : a);

export function tellCurve(told) {
  byId("curve-lead").textContent = told.lead;
  byId("curve-table").replaceChildren(folded(told));
  for (const note of told.notes) byId("curve-table").append(make("p", note, "muted"));
}

// The card of a point: what it rents, what it costs and takes against the plan.
function showCard(point, mark, svg) {
  const card = byId("card"), plan = state.shown && state.shown.answer;
  if (!point) { card.hidden = true; return; }
  const jobs = curve.found.plans[point.p].jobs, facts = jobs.length === 1 ? jobs[0].facts.slice(0, 2).map(([, text]) => text) : [jobs.length + " jobs"];
  const more = plan && plan.usd !== null ? point.u - plan.usd : 0;
  const against = Math.abs(more) < 0.005 ? "" : " (" + (more > 0 ? "+" : "-") + money(Math.abs(more)) + ")";
  card.replaceChildren(make("b", facts[0]), make("span", money(point.u) + against + ", by " + timeUp(point.h)), ...facts.slice(1).map((one) => make("span", one)), make("span", "click: take this one", "muted"));
  card.hidden = false;
  const place = mark.top(point.h, point.u), scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const left = Math.min(place.left * scale + 12, svg.getBoundingClientRect().width - card.offsetWidth - 4);
  card.style.left = Math.max(0, left) + "px"; card.style.top = place.top * scale + 14 + "px";
}

export function showCurve(answer, moveTo) {
  const found = answer.data, d = answer.scene.data, svg = draw(answer.scene), mark = marker(svg, d);
  curve.found = found; curve.isFresh = true;
  curve.hoursAt = (s) => d.hlog ? d.h0 * Math.pow(d.h1 / d.h0, s) : d.h0 + s * (d.h1 - d.h0);
  curve.shareOf = (h) => Math.min(1, Math.max(0, share(h, d.h0, d.h1, d.hlog)));
  curve.mark = (h, best) => mark.set(h, best ? best.h : undefined, best ? best.u : undefined, (curve.hasDeadline ? "deadline " : "by ") + time(h));
  curve.plan = (plan) => mark.plan(plan.within, plan.usd, plan.usd === null ? "" : "your plan: " + (plan.machine ? plan.machine.split(" at ")[0] + ", " : "") + money(plan.usd));
  const at = (event) => nearest(found.points, (p) => mark.x(p.h), mark.place(event));
  svg.addEventListener("click", (event) => { showCard(null); moveTo(at(event).h, true); });
  svg.addEventListener("pointermove", (event) => showCard(at(event), mark, svg));
  svg.addEventListener("pointerleave", () => showCard(null));
  curve.card = (hours) => showCard(found.points.filter((p) => p.h <= hours + 1e-6).at(-1), mark, svg);
  byId("curve").replaceChildren(svg);
  tellCurve(answer.figure);
  byId("along").hidden = false;
  document.body.classList.remove("late");
}

export function noCurve(text) {
  curve.found = curve.steps = curve.of = null; curve.isFresh = false; curve.card = curve.plan = null;
  byId("card").hidden = true;
  byId("curve").replaceChildren(); byId("curve-table").replaceChildren();
  byId("along").hidden = true;
  byId("curve-lead").textContent = text;
  document.body.classList.remove("late");
}

export function staleCurve() { curve.isFresh = false; document.body.classList.add("late"); }

// What the curve says of a deadline; nothing is asked of the server.
export function readCurve(hours, isMove, tieText = () => "") {
  if (!curve.isFresh) return null;
  const best = leastCost(curve.found, hours);
  curve.mark(hours, best);
  if (!isMove) slider.value = Math.round(curve.shareOf(hours) * places);
  const said = byId("said");
  if (!best) {
    said.textContent = "Within " + time(hours) + ": no plan ends that early. The earliest needs " + timeUp(curve.found.points[0].h) + ".";
    delete said.dataset.usd;
  } else {
    const jobs = curve.found.plans[best.plan].jobs;
    said.textContent = "Least cost within " + time(hours) + ": " + money(best.u) + ", ends by " + timeUp(best.h) + (jobs.length === 1 ? ", " + jobs[0].facts[0][1] : "") + "." + (isMove ? "" : tieText(best));
    said.dataset.usd = best.u;
  }
  slider.setAttribute("aria-valuetext", best ? time(hours) + ", " + money(best.u) : time(hours) + ", no plan");
  return best;
}
