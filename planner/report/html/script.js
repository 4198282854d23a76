(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const make = (tag, text) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; return e; };

  const theme = byId("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    const name = button.textContent;
    button.addEventListener("click", async () => {
      const source = byId(button.dataset.copy);
      let done = false;
      try { await navigator.clipboard.writeText(source.textContent); done = true; } catch {
        getSelection().selectAllChildren(source);
        done = document.execCommand("copy");
      }
      button.textContent = done ? "Copied" : "Selected: copy it with the keyboard";
      setTimeout(() => { button.textContent = name; }, 2000);
    });
  }

  const found = data.frontier;
  if (!found || !found.points.length) return;
  const points = found.points;
  const slider = byId("within"), field = byId("hours"), steps = Number(slider.max);
  const pictures = [...document.querySelectorAll("#curve svg")];
  const axis = pictures[0].dataset;
  const low = Number(axis.h0), high = Number(axis.h1), isLog = axis.hlog === "1";
  const share = (value, from, to, log) => log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from);
  const at = (s) => isLog ? low * Math.pow(high / low, s) : low + s * (high - low);
  const money = (usd) => (usd < -0.005 ? "-" : "") + "$" + Math.abs(usd).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const time = (h) => (h < 1 ? h.toFixed(2) : h.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })) + " h";
  // Hours by which a plan ends are rounded up: as a deadline, they keep it.
  const timeUp = (h) => time(h < 1 ? Math.ceil(h * 100 - 1e-6) / 100 : Math.ceil(h * 10 - 1e-6) / 10);

  const within = (hours) => leastCost(found, hours);

  const space = "http://www.w3.org/2000/svg";
  const marks = pictures.map((svg) => {
    const add = (tag, kind) => { const e = document.createElementNS(space, tag); e.setAttribute("class", kind); svg.append(e); return e; };
    const line = add("line", "cursor"), ring = add("circle", "ring"), near = add("circle", "near");
    const d = svg.dataset, n = (key) => Number(d[key]);
    const x = (h) => n("x0") + share(h, n("h0"), n("h1"), d.hlog === "1") * (n("x1") - n("x0"));
    const y = (u) => n("y0") + share(u, n("u0"), n("u1"), d.ulog === "1") * (n("y1") - n("y0"));
    line.setAttribute("y1", n("y0")); line.setAttribute("y2", n("y1"));
    svg.insertBefore(line, svg.querySelector(":scope > text"));  // behind names, which it would cross
    ring.setAttribute("r", 6); near.setAttribute("r", 8); near.setAttribute("visibility", "hidden");
    const put = (e, h, u) => { e.setAttribute("cx", x(h)); e.setAttribute("cy", y(u)); };
    return { svg, x, n, line, near, put, show(hours, u) {
      const px = Math.min(Math.max(x(hours), n("x0")), n("x1"));
      line.setAttribute("x1", px); line.setAttribute("x2", px);
      ring.setAttribute("visibility", u === null ? "hidden" : "visible");
      if (u !== null) { ring.setAttribute("cx", px); ring.setAttribute("cy", y(u)); }
    } };
  });

  function table(caption, rows) {
    const t = make("table"); t.append(make("caption", caption));
    const body = make("tbody");
    for (const [name, value, kind] of rows) {
      const row = make("tr"), head = make("th", name), cell = make("td", value);
      head.scope = "row"; if (kind) cell.className = kind;
      row.append(head, cell); body.append(row);
    }
    t.append(body);
    return t;
  }

  let chosen = 0;
  function show(hours, from) {
    chosen = hours;
    const best = within(hours);
    if (from !== slider) slider.value = Math.round(Math.min(1, Math.max(0, share(hours, low, high, isLog))) * steps);
    if (from !== field) field.value = Number(hours.toFixed(hours < 1 ? 3 : 2));
    for (const mark of marks) mark.show(hours, best ? best.u : null);
    const said = byId("said"), plan = byId("picked-plan"), bill = byId("picked-bill");
    plan.replaceChildren(); bill.replaceChildren();
    if (!best) {
      said.textContent = "Within " + timeUp(hours) + ": no plan ends that early. The earliest needs " + timeUp(points[0].h) + ".";
      slider.setAttribute("aria-valuetext", timeUp(hours) + ", no plan");
      return;
    }
    let text = "Within " + timeUp(hours) + ": " + money(best.u) + ", ends by " + timeUp(best.h);
    const more = best.u - data.plan.usd;
    if (Math.abs(more) >= 0.005) text += " (" + money(Math.abs(more)) + (more > 0 ? " more" : " less") + " than the plan above)";
    said.textContent = text; said.dataset.usd = best.u; said.dataset.hours = best.h;
    slider.setAttribute("aria-valuetext", timeUp(hours) + ", " + money(best.u));
    found.plans[best.plan].jobs.forEach((job, i) => {
      const rows = [...job.facts];
      if (best.spot[i] > 0.0005) rows.push(["spot share", Math.round(best.spot[i] * 100) + " %"]);
      plan.append(table(found.plans[best.plan].jobs.length > 1 ? job.name : "Plan", rows));
    });
    if (best.e !== undefined) plan.append(make("p", "Likely finish: " + time(best.e)));
    if (data.setting) { const p = make("p", "This plan: "); p.append(make("code", data.setting.replace("HOURS", String(Number((Math.ceil(best.h * 100) / 100).toFixed(2)))))); plan.append(p); }
    const rows = [...best.bill].sort((a, b) => b[1] - a[1]).filter((one) => Math.abs(one[1]) >= 0.005).map(([item, usd]) => [found.items[item], money(usd), "n"]);
    rows.push(["total", money(best.u), "n"]);
    bill.append(table("Bill", rows));
    if (rows.length === 1) bill.append(make("p", "The items are known at breakpoints."));
  }

  byId("pick").hidden = false;
  slider.addEventListener("input", () => show(at(Number(slider.value) / steps), slider));
  field.addEventListener("input", () => { const h = field.valueAsNumber; if (h > 0) show(h, field); });
  byId("earlier").addEventListener("click", () => show((points.findLast((p) => p.h < chosen - 1e-6) || points[0]).h));
  byId("later").addEventListener("click", () => show((points.find((p) => p.h > chosen + 1e-6) || points[points.length - 1]).h));
  for (const mark of marks) {
    const nearest = (event) => {
      const box = mark.svg.getBoundingClientRect(), px = (event.clientX - box.left) * mark.svg.viewBox.baseVal.width / box.width;
      return points.reduce((a, b) => Math.abs(mark.x(b.h) - px) < Math.abs(mark.x(a.h) - px) ? b : a);
    };
    mark.svg.addEventListener("pointermove", (event) => {
      const p = nearest(event), jobs = found.plans[p.p].jobs;
      mark.put(mark.near, p.h, p.u); mark.near.setAttribute("visibility", "visible");
      byId("hover").textContent = timeUp(p.h) + ", " + money(p.u) + ": " + jobs.map((job) => job.facts[0][1]).join("; ");
    });
    mark.svg.addEventListener("pointerleave", () => { mark.near.setAttribute("visibility", "hidden"); byId("hover").textContent = ""; });
    mark.svg.addEventListener("click", (event) => show(nearest(event).h));
  }
  show(data.plan.within ?? points[points.length - 1].h);
})();
