// The curve and its slider: exact in the page, because the least cost within any hours follows from the data.
const curve = { found: null, isFresh: false, mark: null };
const slider = byId("within"), steps = Number(slider.max);

function showCurve(answer) {
  const found = answer.data, d = answer.scene.data, svg = draw(answer.scene);
  const add = (tag, kind) => { const e = document.createElementNS(space, tag); e.setAttribute("class", kind); svg.append(e); return e; };
  const share = (value, low, high, log) => log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  const line = add("line", "cursor"), ring = add("circle", "ring");
  ring.setAttribute("r", 6); line.setAttribute("y1", d.y0); line.setAttribute("y2", d.y1);
  const x = (h) => d.x0 + Math.min(1, Math.max(0, share(h, d.h0, d.h1, d.hlog))) * (d.x1 - d.x0);
  curve.found = found; curve.isFresh = true;
  curve.hoursAt = (s) => d.hlog ? d.h0 * Math.pow(d.h1 / d.h0, s) : d.h0 + s * (d.h1 - d.h0);
  curve.shareOf = (h) => Math.min(1, Math.max(0, share(h, d.h0, d.h1, d.hlog)));
  curve.mark = (h, best) => {
    const px = x(best ? Math.min(h, d.h1) : h);
    line.setAttribute("x1", px); line.setAttribute("x2", px);
    ring.setAttribute("visibility", best ? "visible" : "hidden");
    if (best) { ring.setAttribute("cx", x(best.h)); ring.setAttribute("cy", d.y0 + share(best.u, d.u0, d.u1, d.ulog) * (d.y1 - d.y0)); }
  };
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect(), px = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const p = found.points.reduce((a, b) => Math.abs(x(b.h) - px) < Math.abs(x(a.h) - px) ? b : a);
    moveTo(p.h, true);
  });
  byId("curve").replaceChildren(svg);
  byId("curve-lead").textContent = answer.figure.lead;
  byId("curve-table").replaceChildren(folded(answer.figure));
  for (const note of answer.figure.notes) byId("curve-table").append(make("p", note, "muted"));
  byId("along").hidden = false;
  document.body.classList.remove("late");
}

function noCurve(text) {
  curve.found = null; curve.isFresh = false;
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
  if (!isMove) slider.value = Math.round(curve.shareOf(hours) * steps);
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
