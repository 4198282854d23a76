// The bill with a number in the data of a frontier, as a map from the place of an item to dollars.
const billOf = (found, number) => { const flat = found.bills[number], map = new Map(); for (let i = 0; i < flat.length; i += 2) map.set(flat[i], flat[i + 1]); return map; };

// The least cost of all runs that begin by then: exact, because the frontier is made of these runs.
function leastCost(found, hours) {
  let best = null;
  for (const p of found.points) if (p.h <= hours + 1e-6 && (!best || p.u < best.u)) best = { h: p.h, u: p.u, e: p.e, plan: p.p, bill: billOf(found, p.b), spot: p.s };
  for (const [h0, u0, h1, u1, plan, from, to, spot] of found.slopes) {
    if (h0 > hours + 1e-6) continue;
    const h = Math.min(hours, h1), t = (h - h0) / (h1 - h0), u = u0 + (u1 - u0) * t;
    if (best && u >= best.u - 1e-5) continue;
    const known = from >= 0 && to >= 0, bill = new Map(), left = known ? billOf(found, from) : bill, right = known ? billOf(found, to) : bill;
    for (const item of new Set([...left.keys(), ...right.keys()])) bill.set(item, (left.get(item) || 0) * (1 - t) + (right.get(item) || 0) * t);
    best = { h, u, plan, bill, spot: spot.map(([a, b]) => a + (b - a) * t) };
  }
  return best;
}
