// The curve and its slider: exact in the page, because the least cost within any hours follows from the data.
const curve = { found: null, steps: null, isFresh: false, mark: null };
const slider = byId("within"), places = Number(slider.max);
const share = (value, low, high, log) => log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);

// A line across the picture and a ring on the curve; `d` has the ends of both axes.
function marker(svg, d) {
  const add = (tag, kind) => { const e = document.createElementNS(space, tag); e.setAttribute("class", kind); svg.append(e); return e; };
  const line = add("line", "cursor"), ring = add("circle", "ring");
  ring.setAttribute("r", 6); line.setAttribute("y1", d.y0); line.setAttribute("y2", d.y1);
  const x = (h) => d.x0 + Math.min(1, Math.max(0, share(h, d.h0, d.h1, d.hlog))) * (d.x1 - d.x0);
  return {
    x,
    place: (event) => { const box = svg.getBoundingClientRect(); return (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width; },
    // `at` is where the line stands, `h` and `u` where the ring does; without them there is no ring.
    set: (at, h, u) => {
      line.setAttribute("x1", x(at)); line.setAttribute("x2", x(at));
      ring.setAttribute("visibility", u === undefined ? "hidden" : "visible");
      if (u !== undefined) { ring.setAttribute("cx", x(h)); ring.setAttribute("cy", d.y0 + share(u, d.u0, d.u1, d.ulog) * (d.y1 - d.y0)); }
    },
  };
}

const nearest = (points, x, px) => points.reduce((a, b) => Math.abs(x(b) - px) < Math.abs(x(a) - px) ? b : a);

function tellCurve(told) {
  byId("curve-lead").textContent = told.lead;
  byId("curve-table").replaceChildren(folded(told));
  for (const note of told.notes) byId("curve-table").append(make("p", note, "muted"));
}

function showCurve(answer) {
  const found = answer.data, d = answer.scene.data, svg = draw(answer.scene), mark = marker(svg, d);
  curve.found = found; curve.isFresh = true;
  curve.hoursAt = (s) => d.hlog ? d.h0 * Math.pow(d.h1 / d.h0, s) : d.h0 + s * (d.h1 - d.h0);
  curve.shareOf = (h) => Math.min(1, Math.max(0, share(h, d.h0, d.h1, d.hlog)));
  curve.mark = (h, best) => mark.set(h, best ? best.h : undefined, best ? best.u : undefined);
  svg.addEventListener("click", (event) => moveTo(nearest(found.points, (p) => mark.x(p.h), mark.place(event)).h, true));
  byId("curve").replaceChildren(svg);
  tellCurve(answer.figure);
  byId("along").hidden = false;
  document.body.classList.remove("late");
}

function noCurve(text) {
  curve.found = curve.steps = null; curve.isFresh = false;
  byId("curve").replaceChildren(); byId("curve-table").replaceChildren();
  byId("along").hidden = true;
  byId("curve-lead").textContent = text;
  document.body.classList.remove("late");
}

function staleCurve() { curve.isFresh = false; document.body.classList.add("late"); }

// What the curve says of a deadline; nothing is asked of the server.
function readCurve(hours, isMove) {
  if (!curve.isFresh) return null;
  const best = leastCost(curve.found, hours);
  curve.mark(hours, best);
  if (!isMove) slider.value = Math.round(curve.shareOf(hours) * places);
  const said = byId("said");
  if (!best) {
    said.textContent = "Within " + time(hours) + ": no plan ends that early. The earliest needs " + time(curve.found.points[0].h) + ".";
    delete said.dataset.usd;
  } else {
    const jobs = curve.found.plans[best.plan].jobs;
    said.textContent = "Least cost within " + time(hours) + ": " + money(best.u) + ", ends by " + time(best.h) + (jobs.length === 1 ? ", " + jobs[0].facts[0][1] : "") + "." + (isMove ? "" : tieText(best));
    said.dataset.usd = best.u;
  }
  slider.setAttribute("aria-valuetext", best ? time(hours) + ", " + money(best.u) : time(hours) + ", no plan");
  return best;
}
