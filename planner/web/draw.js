// Elements, tables and pictures: every text of an answer becomes text of an element, never markup.
export const make = (tag, text, kind) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (kind) e.className = kind; return e; };
export const money = (usd) => (usd < -0.005 ? "-" : "") + "$" + Math.abs(usd).toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
export const time = (h) => (h < 1 ? h.toFixed(2) : h.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })) + " h";
export const timeUp = (h) => time(h < 1 ? Math.ceil(h * 100 - 1e-6) / 100 : Math.ceil(h * 10 - 1e-6) / 10);

export function table(caption, header, rows, isPlain) {
  const region = make("div", undefined, "scroll"), t = make("table");
  region.tabIndex = 0; region.setAttribute("role", "region"); region.setAttribute("aria-label", caption);
  const head = make("thead"), first = make("tr"), body = make("tbody");
  for (const cell of header) { const one = make(cell ? "th" : "td", cell); if (cell) one.scope = "col"; first.append(one); }
  head.append(first);
  for (const cells of rows) {
    const row = make("tr");
    for (const cell of cells) row.append(cell instanceof Node ? cell : make("td", cell, !isPlain && /^[\d$+-]/.test(cell) ? "n" : ""));
    body.append(row);
  }
  t.append(head, body); region.append(t);
  return region;
}

export const space = "http://www.w3.org/2000/svg";
let drawn = 0;
export function draw(scene) {
  const put = (tag, attributes, text) => {
    const e = document.createElementNS(space, tag);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    if (text) e.textContent = text;
    return e;
  };
  const noted = (e, note) => { if (note) e.append(put("title", {}, note)); return e; };
  const ident = "picture-" + ++drawn;
  const svg = put("svg", { viewBox: `0 0 ${scene.width} ${scene.height}`, role: "img", "aria-labelledby": ident + "-t " + ident + "-d" });
  svg.append(put("title", { id: ident + "-t" }, scene.title), put("desc", { id: ident + "-d" }, scene.description));
  if (scene.shapes.some((shape) => shape[0] === "rect" && shape[7])) {
    const defs = put("defs", {});
    const stripes = put("pattern", { id: ident + "-s", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
    stripes.append(put("path", { d: "M0 0V5", class: "s-paper", "stroke-width": 2 }));
    defs.append(stripes);
    svg.append(defs);
  }
  for (const [kind, ...rest] of scene.shapes) {
    if (kind === "rect") {
      const [x, y, width, height, fill, note, striped] = rest;
      svg.append(noted(put("rect", { x, y, width, height, class: "f-" + fill }), note));
      if (striped) svg.append(noted(put("rect", { x, y, width, height, fill: `url(#${ident}-s)` }), note));
    } else if (kind === "dot") {
      const [cx, cy, r, stroke, fill, note] = rest;
      svg.append(noted(put("circle", { cx, cy, r, class: `s-${stroke} f-${fill}` }), note));
    } else if (kind === "line") {
      const [d, stroke, width, dashed] = rest;
      const path = put("path", { d, class: "s-" + stroke, "stroke-width": width });
      if (dashed) path.setAttribute("stroke-dasharray", "4 3");
      svg.append(path);
    } else {
      const [x, y, text, fill, anchor, size, bold] = rest;
      const e = put("text", { x, y, "font-size": size, "text-anchor": anchor, class: "f-" + fill }, text);
      if (bold) e.setAttribute("font-weight", "600");
      svg.append(e);
    }
  }
  return svg;
}

export function figure(found) {
  const section = make("section"), holder = make("figure");
  section.id = "figure-" + found.key;
  section.append(make("h2", found.title, "hide"));
  holder.append(make("figcaption", found.lead));
  if (found.scene) holder.append(draw(found.scene));
  holder.append(folded(found));
  for (const note of found.notes) holder.append(make("p", note, "muted"));
  section.append(holder);
  return section;
}

export function folded(found) {
  const more = make("details");
  more.append(make("summary", "Table: " + found.title), table("Table: " + found.title, found.table.header, found.table.rows));
  return more;
}
