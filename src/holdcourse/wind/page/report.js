"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;

  // ---- data: arrays travel as base64 of their little-endian bytes
  const unpack = (text, Kind) => {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return new Kind(bytes.buffer);
  };
  const opened = data.sites.map(() => null);
  const open = (k) => {
    if (opened[k]) return opened[k];
    const s = Object.assign({}, data.sites[k]);
    s.time = unpack(s.time, Uint32Array);
    s.speed = unpack(s.speed, Uint16Array);
    s.n = s.altitudes.length;
    s.T = s.time.length;
    s.firsts = new Set();
    s.lengths.reduce((at, length) => (s.firsts.add(at), at + length), 0);
    s.kw = (t, x) => { const c = s.curves[Math.min(x, s.curves.length - 1)]; return c[Math.min(s.speed[t * s.n + x], c.length - 1)]; };
    s.way = (from, to) => { const d = s.altitudes[to] - s.altitudes[from]; return d > 0 ? d * s.climb : -d * s.sink; };
    s.policies = s.policies.map((given) => {
      const p = Object.assign({}, given);
      p.actions = unpack(p.actions, Uint16Array);
      if (p.probabilities) p.probabilities = unpack(p.probabilities, Float32Array);
      for (const name in p.reasons || {}) p.reasons[name] = typeof p.reasons[name] === "string" ? unpack(p.reasons[name], Float32Array) : p.reasons[name];
      if (p.plans) {
        const given = p.plans, rounds = unpack(given.rounds, Uint32Array);
        p.plans = { length: given.length, home: given.home && unpack(given.home, Uint16Array), actions: unpack(given.actions, Uint16Array), more: unpack(given.more, Float32Array), of: new Map(Array.from(rounds, (t, k) => [t, k])) };
      }
      p.before = (t) => (s.firsts.has(t) ? s.start : p.actions[t - 1]);
      p.moving = (t) => s.way(p.before(t), p.actions[t]);
      p.gross = (t) => s.rho * s.step_hours * s.kw(t, p.actions[t]);
      p.sum = new Float64Array(s.T);
      let sum = 0;
      for (let t = 0; t < s.T; t++) p.sum[t] = sum += p.gross(t) - p.moving(t);
      return p;
    });
    s.by = Object.fromEntries(s.policies.map((p) => [p.name, p]));
    return (opened[k] = s);
  };

  // ---- state
  const view = { site: 0, from: 0, to: 0, hover: null, pinned: false, shown: new Set(), focus: "", colour: "speed", absolute: false };
  let S = null;
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const end = (t) => S.time[t] + S.step_hours * 3600;
  const kwh = (v, digits = 0) => v.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const when = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
  // First index whose time is not before `seconds`.
  const indexOf = (seconds) => { let a = 0, b = S.T; while (a < b) { const m = (a + b) >> 1; S.time[m] < seconds ? (a = m + 1) : (b = m); } return a; };
  const under = (seconds) => { const t = indexOf(seconds + 1e-6) - 1; return t >= 0 && seconds < end(t) ? t : -1; };

  // ---- drawing
  const TOP = 12, BOTTOM = 30, NARROW = 560; // on a phone the buttons above are the legend: no names at the lines
  const left = 62, right = (width) => (width < NARROW ? 10 : 142);
  const surface = (id) => {
    const canvas = $(id), box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(box.width * ratio));
    canvas.height = Math.max(1, Math.round(box.height * ratio));
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.font = "13.5px system-ui, 'DejaVu Sans', sans-serif";
    return { g, ratio, w: box.width, h: box.height, x0: left, x1: box.width - right(box.width), y0: TOP, y1: box.height - BOTTOM };
  };
  const RAMP = { light: [[243, 246, 248], [203, 217, 226], [150, 178, 196], [98, 136, 162], [52, 92, 122]], dark: [[24, 31, 38], [38, 54, 67], [58, 86, 106], [92, 129, 152], [150, 187, 208]] };
  const shade = (u) => {
    const ramp = RAMP[dark() ? "dark" : "light"], v = Math.min(Math.max(u, 0), 1) * (ramp.length - 1), k = Math.min(Math.floor(v), ramp.length - 2), f = v - k;
    return ramp[k].map((c, i) => c + f * (ramp[k + 1][i] - c));
  };
  const nice = (low, high, about) => {
    const raw = (high - low) / about || 1, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw);
    const ticks = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + 1e-9 * step; v += step) ticks.push(Math.abs(v) < step * 1e-9 ? 0 : v);
    return ticks;
  };
  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  const timeTicks = (from, to, room) => {
    const day = 86400, days = (to - from) / day, most = Math.max(2, Math.floor(room / 95));
    const ticks = [];
    if (days > 75) {
      const every = [1, 2, 3, 6, 12].find((m) => days / 30 / m <= most) || 12, d = new Date(from * 1000);
      for (let m = d.getUTCFullYear() * 12 + d.getUTCMonth(); ; m++) {
        const at = Date.UTC(Math.floor(m / 12), m % 12, 1) / 1000;
        if (at > to) break;
        if (at >= from && m % every === 0) ticks.push([at, MONTHS[m % 12] + " " + Math.floor(m / 12)]);
      }
    } else {
      const step = [1 / 8, 1 / 4, 1 / 2, 1, 2, 7, 14].find((k) => days / k <= most) || 28;
      for (let at = Math.ceil(from / day / step) * step * day; at <= to; at += step * day) {
        const d = new Date(at * 1000), text = d.getUTCDate() + " " + MONTHS[d.getUTCMonth()];
        ticks.push([at, step < 1 && d.getUTCHours() ? String(d.getUTCHours()).padStart(2, "0") + ":00" : text]);
      }
    }
    return ticks;
  };
  const timeX = (c) => (seconds) => c.x0 + ((seconds - view.from) / (view.to - view.from)) * (c.x1 - c.x0);
  const drawTimeAxis = (c) => {
    const X = timeX(c);
    c.g.fillStyle = css("--soft"); c.g.textAlign = "center"; c.g.textBaseline = "top";
    for (const [at, text] of timeTicks(view.from, view.to, c.x1 - c.x0)) {
      c.g.fillRect(X(at), c.y1, 1, 5);
      const half = c.g.measureText(text).width / 2;
      if (X(at) - half > 0 && X(at) + half < c.w) c.g.fillText(text, X(at), c.y1 + 8);
    }
  };
  const drawValueAxis = (c, Y, ticks, text, grid) => {
    c.g.textAlign = "right"; c.g.textBaseline = "middle";
    for (const v of ticks) {
      if (grid) { c.g.fillStyle = css("--line"); c.g.fillRect(c.x0, Math.round(Y(v)), c.x1 - c.x0, 1); }
      c.g.fillStyle = css("--soft"); c.g.fillText(text(v), c.x0 - 8, Y(v));
    }
  };
  const casing = (g, width, path) => { g.setLineDash([]); g.lineJoin = "round"; g.strokeStyle = css("--bg"); g.lineWidth = width; g.beginPath(); path(); g.stroke(); };
  const stroke = (g, p, width, path) => {
    g.lineJoin = "round"; g.setLineDash(p.know ? [9, 5] : []); g.strokeStyle = p.colour; g.lineWidth = width; g.beginPath(); path(); g.stroke(); g.setLineDash([]);
  };
  // Labels at the right end, pushed apart so that none covers another.
  const endLabels = (c, found) => {
    const gap = 17;
    if (c.w < NARROW) return;
    found.sort((a, b) => a.y - b.y);
    for (let i = 1; i < found.length; i++) found[i].y = Math.max(found[i].y, found[i - 1].y + gap);
    for (let i = found.length - 1, most = c.y1; i >= 0; i--, most -= gap) found[i].y = Math.min(found[i].y, most);
    c.g.textAlign = "left"; c.g.textBaseline = "middle";
    for (const { p, y } of found) {
      stroke(c.g, p, 3.2, () => { c.g.moveTo(c.x1 + 6, y); c.g.lineTo(c.x1 + 26, y); });
      c.g.fillStyle = css("--ink"); c.g.fillText(p.name, c.x1 + 31, y);
    }
  };
  const shownPolicies = () => S.policies.filter((p) => view.shown.has(p.name));

  // Of a long time every hour would be a barcode: the mean altitude of each day instead.
  const LONG = 62;
  const dailyPath = (g, p, a, b, X, Y) => {
    let begun = false;
    for (let t = a; t < b; ) {
      const day = Math.floor(S.time[t] / 86400); let sum = 0, count = 0;
      for (; t < b && Math.floor(S.time[t] / 86400) === day; t++) { sum += S.altitudes[p.actions[t]]; count++; }
      const x = X((day + 0.5) * 86400), y = Y(sum / count);
      begun ? g.lineTo(x, y) : g.moveTo(x, y); begun = true;
    }
  };

  const drawField = () => {
    const c = surface("field"), { g, ratio } = c;
    c.y0 += 26; // room for the colour scale
    const w = Math.round((c.x1 - c.x0) * ratio), h = Math.round((c.y1 - c.y0) * ratio);
    if (w < 2 || h < 2) return;
    const margin = 0.02 * (S.altitudes[S.n - 1] - S.altitudes[0]) || 1; // lines at the edge are seen whole
    const low = S.altitudes[0] - margin, high = S.altitudes[S.n - 1] + margin;
    const image = g.createImageData(w, h), column = new Float64Array(S.n);
    const top = view.colour === "speed" ? S.top_speed : S.top_power;
    const rows = []; // altitude index and share of each pixel row
    for (let y = 0; y < h; y++) {
      const a = high - ((y + 0.5) / h) * (high - low);
      let k = 0; while (k < S.n - 2 && S.altitudes[k + 1] < a) k++;
      rows.push([k, Math.min(Math.max((a - S.altitudes[k]) / (S.altitudes[k + 1] - S.altitudes[k]), 0), 1)]);
    }
    const palette = Array.from({ length: 256 }, (_, i) => shade(i / 255));
    for (let x = 0; x < w; x++) {
      const from = view.from + (x / w) * (view.to - view.from), to = view.from + ((x + 1) / w) * (view.to - view.from);
      let a = indexOf(from), b = indexOf(to);
      if (a >= b) { a = under((from + to) / 2); b = a + 1; if (a < 0) continue; }
      column.fill(0);
      for (let t = a; t < b; t++) for (let k = 0; k < S.n; k++) column[k] += view.colour === "speed" ? S.speed[t * S.n + k] / 100 : S.kw(t, k);
      for (let y = 0; y < h; y++) {
        const [k, f] = rows[y], v = (column[k] + f * (column[k + 1] - column[k])) / (b - a);
        const colour = palette[Math.round(Math.min(Math.max(v / top, 0), 1) * 255)], o = 4 * (y * w + x);
        image.data[o] = colour[0]; image.data[o + 1] = colour[1]; image.data[o + 2] = colour[2]; image.data[o + 3] = 255;
      }
    }
    g.putImageData(image, Math.round(c.x0 * ratio), Math.round(c.y0 * ratio));
    const X = timeX(c), Y = (a) => c.y1 - ((a - low) / (high - low)) * (c.y1 - c.y0);
    drawValueAxis(c, Y, nice(low, high, 5), (v) => v + " m", false);
    drawTimeAxis(c);
    const a = Math.max(0, indexOf(view.from) - 1), b = Math.min(S.T, indexOf(view.to) + 1), labels = [];
    g.save(); g.beginPath(); g.rect(c.x0, c.y0 - 4, c.x1 - c.x0, c.y1 - c.y0 + 8); g.clip();
    const order = shownPolicies().sort((p, q) => (p.name === view.focus) - (q.name === view.focus));
    const paths = order.map((p) => {
      if (b > a) labels.push({ p, y: Y(S.altitudes[p.actions[b - 1]]) });
      return () => {
        if (view.to - view.from > LONG * 86400) { dailyPath(g, p, a, b, X, Y); return; }
        for (let t = a; t < b; t++) {
          const y = Y(S.altitudes[p.actions[t]]);
          S.firsts.has(t) || t === a ? g.moveTo(X(S.time[t]), y) : g.lineTo(X(S.time[t]), y);
          g.lineTo(X(end(t)), y);
        }
      };
    });
    // The one explained lies on top and is thinner, so that two at one altitude are both seen; casings lie below all.
    const width = (p) => (p.name === view.focus ? 2.4 : p.know ? 2.2 : 4);
    order.forEach((p, i) => casing(g, width(p) + 3, paths[i]));
    order.forEach((p, i) => stroke(g, p, width(p), paths[i]));
    g.restore();
    endLabels(c, labels);
    const wide = c.w < NARROW ? 110 : 170, x = c.x0, y = TOP - 4;
    for (let i = 0; i < wide; i++) { g.fillStyle = `rgb(${shade(i / wide).join(",")})`; g.fillRect(x + i, y, 1.5, 13); }
    g.strokeStyle = css("--line"); g.lineWidth = 1; g.strokeRect(x, y, wide, 13);
    g.fillStyle = css("--soft"); g.textBaseline = "middle"; g.textAlign = "right"; g.fillText("0", x - 8, y + 7);
    $("field-note").hidden = view.to - view.from <= LONG * 86400;
    g.textAlign = "left"; g.fillText(view.colour === "speed" ? `${Math.round(top)} m/s wind speed` : `${Math.round(top)} kW`, x + wide + 8, y + 7);
  };

  const value = (p, t) => (view.absolute || !S.by.fixed ? p.sum[t] : p.sum[t] - S.by.fixed.sum[t]);
  const drawSum = () => {
    const c = surface("sum"), { g } = c;
    $("sum-title").textContent = view.absolute || !S.by.fixed ? "Net energy so far, kWh" : "Net energy so far above or below fixed, kWh";
    const a = Math.max(0, indexOf(view.from)), b = Math.min(S.T, indexOf(view.to));
    if (b <= a) return;
    const stride = Math.max(1, Math.floor((b - a) / (2 * (c.x1 - c.x0))));
    const at = []; for (let t = a; t < b; t += stride) at.push(t);
    if (at[at.length - 1] !== b - 1) at.push(b - 1);
    let low = Infinity, high = -Infinity;
    for (const p of shownPolicies()) for (const t of at) { const v = value(p, t); low = Math.min(low, v); high = Math.max(high, v); }
    if (!(low <= high)) { low = 0; high = 1; }
    if (!view.absolute) { low = Math.min(low, 0); high = Math.max(high, 0); }
    const pad = 0.06 * (high - low) || 1; low -= pad; high += pad;
    const X = timeX(c), Y = (v) => c.y1 - ((v - low) / (high - low)) * (c.y1 - c.y0), labels = [];
    drawValueAxis(c, Y, nice(low, high, 5), (v) => kwh(v), true);
    drawTimeAxis(c);
    g.save(); g.beginPath(); g.rect(c.x0, c.y0, c.x1 - c.x0, c.y1 - c.y0); g.clip();
    for (const p of shownPolicies()) {
      stroke(g, p, p.name === view.focus ? 3.2 : 2.4, () => at.forEach((t, i) => (i ? g.lineTo(X(end(t)), Y(value(p, t))) : g.moveTo(X(end(t)), Y(value(p, t))))));
      labels.push({ p, y: Y(value(p, b - 1)) });
    }
    g.restore();
    endLabels(c, labels);
  };

  const drawOver = () => {
    for (const id of ["field-over", "sum-over"]) {
      const c = surface(id), { g } = c, X = timeX(c);
      if (id === "field-over") c.y0 += 26;
      if (drag) { g.fillStyle = css("--accent"); g.globalAlpha = 0.18; g.fillRect(drag.from, c.y0, drag.to - drag.from, c.y1 - c.y0); g.globalAlpha = 1; }
      if (view.hover === null) continue;
      const x = X((S.time[view.hover] + end(view.hover)) / 2);
      if (x < c.x0 || x > c.x1) continue;
      g.strokeStyle = css("--ink"); g.lineWidth = view.pinned ? 2 : 1; g.setLineDash(view.pinned ? [] : [4, 3]);
      g.beginPath(); g.moveTo(x, c.y0); g.lineTo(x, c.y1); g.stroke();
    }
  };

  // ---- why: the reasons of one decision
  const element = (tag, text, parent) => { const made = document.createElement(tag); if (text !== undefined) made.textContent = text; if (parent) parent.append(made); return made; };
  const explain = () => {
    const box = $("why"), p = S.by[view.focus], t = view.hover;
    box.replaceChildren();
    if (t === null) { element("h4", "Why?", box); element("p", "Move the pointer over a chart to read here what the policy knew, what it chose, and what it earned.", box); return; }
    const metres = (x) => `${Math.round(S.altitudes[x])} m`, x = p.actions[t], b = p.before(t), wind = (k) => `${(S.speed[t * S.n + k] / 100).toFixed(1)} m/s`;
    element("p", when(S.time[t]), box).className = "small";
    element("h4", x === b ? `${p.name} held ${metres(x)}` : `${p.name} went from ${metres(b)} to ${metres(x)}`, box);
    element("p", p.says, box).className = "small";
    const table = element("table", undefined, box), row = (name, text) => { const r = element("tr", undefined, table); element("td", name, r); element("td", text, r); };
    const energy = (k) => S.rho * S.step_hours * S.kw(t, k);
    if (p.probabilities) row("probability of this altitude", `${(100 * p.probabilities[t]).toFixed(1)} %`);
    if (p.reasons) {
      const r = p.reasons, spread = 2 * r.wind_std[t];
      row("wind expected there", `${r.wind[t].toFixed(1)} m/s (${Math.max(0, r.wind[t] - spread).toFixed(1)} to ${(r.wind[t] + spread).toFixed(1)})`);
      row("expected loss against the best altitude", `${kwh(r.shortfall[t], 1)} kWh`);
      if (x !== b) row("\u2003had it stayed", `${kwh(r.shortfall_before[t], 1)} kWh`);
      if (kwh(r.bound[t], 1) !== kwh(r.shortfall[t], 1) || kwh(r.bound_before[t], 1) !== kwh(r.shortfall_before[t], 1)) {
        row("lower bound of that loss", `${kwh(r.bound[t], 1)} kWh`);
        if (x !== b) row("\u2003had it stayed", `${kwh(r.bound_before[t], 1)} kWh`);
      }
    }
    row("price of the move", x === b ? "none" : `${kwh(p.moving(t), 1)} kWh`);
    row("wind that blew there", wind(x));
    row("energy made", `${kwh(p.gross(t), 1)} kWh`);
    if (x !== b) row("\u2003had it stayed", `${kwh(energy(b), 1)} kWh`);
    if (p.plans && p.plans.of.has(t)) planBehind(box, p, t);
    let best = 0; for (let k = 1; k < S.n; k++) if (S.kw(t, k) > S.kw(t, best)) best = k;
    row("best altitude of the hour", `${metres(best)}, ${kwh(energy(best), 1)} kWh`);
    profile(box, t);
  };
  // The plan that justified a move: where it wanted to be until when, what that was expected to bring, and the move to where it settles.
  const planBehind = (box, p, t) => {
    const { length, actions, more, of } = p.plans, at = length * of.get(t), b = p.before(t), home = p.plans.home && p.plans.home[of.get(t)];
    const metres = (x) => `${Math.round(S.altitudes[x])} m`, clock = (k) => when(S.time[t] + k * S.step_hours * 3600).slice(11, 16);
    element("p", `The plan behind it: ${+(length * S.step_hours).toPrecision(3)} hours ahead, against staying at ${metres(b)}`, box).className = "small";
    const table = element("table", undefined, box); table.className = "plan";
    const row = (...cells) => { const r = element("tr", undefined, table); cells.forEach((text) => element("td", text, r)); };
    row("until", "at", "expected more", "moving");
    let spent = 0, gained = 0, from = b;
    for (let k = 0; k < length; ) {
      const x = actions[at + k], way = S.way(from, x); let sum = 0;
      for (; k < length && actions[at + k] === x; k++) sum += more[at + k];
      row(clock(k), metres(x), `${sum < 0 ? "\u2212" : "+"}${kwh(Math.abs(sum), 1)} kWh`, way ? `\u2212${kwh(way, 1)} kWh` : "");
      gained += sum; spent += way; from = x;
    }
    if (home !== null && from !== home) { const way = S.way(from, home); row("then", `to ${metres(home)}`, "", `\u2212${kwh(way, 1)} kWh`); spent += way; }
    const left = gained - spent;
    row("together", "", `${gained < 0 ? "\u2212" : "+"}${kwh(Math.abs(gained), 1)} kWh`, `\u2212${kwh(spent, 1)} kWh`);
    element("p", `Expected net gain: ${left < 0 ? "\u2212" : "+"}${kwh(Math.abs(left), 1)} kWh. It plans again in the next hour.`, box).className = "small";
  };
  const NS = (() => { const box = document.createElement("div"); box.innerHTML = "<svg></svg>"; return box.firstChild.namespaceURI; })();
  const svg = (tag, attributes, parent) => { const made = document.createElementNS(NS, tag); for (const k in attributes) made.setAttribute(k, attributes[k]); if (parent) parent.append(made); return made; };
  const profile = (box, t) => {
    element("p", "Wind by altitude in this hour", box).className = "small";
    const W = 296, H = 190, s = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "wind profile", width: "100%" }, box);
    const low = S.altitudes[0], high = S.altitudes[S.n - 1], X = (v) => 52 + (v / S.top_speed) * (W - 62), Y = (a) => H - 22 - ((a - low) / (high - low)) * (H - 32);
    const ink = css("--ink"), soft = css("--soft");
    const text = (x, y, words, anchor) => (svg("text", { x, y, fill: soft, "font-size": 12, "text-anchor": anchor }, s).textContent = words);
    for (const a of nice(low, high, 4)) text(46, Y(a) + 4, a, "end");
    for (const v of nice(0, S.top_speed, 4)) text(X(v), H - 4, v, "middle");
    text(W - 2, H - 24, "m/s", "end");
    const points = S.altitudes.map((a, k) => `${X(Math.min(S.speed[t * S.n + k] / 100, S.top_speed))},${Y(a)}`).join(" ");
    svg("polyline", { points, fill: "none", stroke: ink, "stroke-width": 2 }, s);
    for (const p of shownPolicies()) {
      const k = p.actions[t];
      svg("circle", { cx: X(Math.min(S.speed[t * S.n + k] / 100, S.top_speed)), cy: Y(S.altitudes[k]), r: p.name === view.focus ? 7 : 5, fill: p.know ? css("--card") : p.colour, stroke: p.colour, "stroke-width": 2.5 }, s);
    }
  };

  // ---- a year at a glance: a row for each month, a cell for each day
  const daily = (p) => {
    const days = new Map();
    for (let t = 0; t < S.T; t++) {
      const day = Math.floor(S.time[t] / 86400), cell = days.get(day) || { gain: 0, altitude: 0, hours: 0 };
      cell.gain += p.gross(t) - p.moving(t) - (S.by.fixed ? S.by.fixed.gross(t) - S.by.fixed.moving(t) : 0);
      cell.altitude += S.altitudes[p.actions[t]]; cell.hours++;
      days.set(day, cell);
    }
    for (const cell of days.values()) cell.altitude /= cell.hours;
    return days;
  };
  const drawCalendar = () => {
    const box = $("calendar"), p = S.by[view.focus], gains = $("calendar-shows").value === "gain";
    box.replaceChildren();
    const W = box.clientWidth || 600, days = daily(p), months = new Map();
    for (const [day, cell] of days) { const d = new Date(day * 86400000), key = d.getUTCFullYear() * 12 + d.getUTCMonth(); months.set(key, [...(months.get(key) || []), [d.getUTCDate(), day, cell]]); }
    const x0 = 66, end = 74, size = Math.max(6, Math.min(36, (W - x0 - end) / 31)), high = Math.max(12, Math.min(20, size)), top = 18;
    const values = [...days.values()].map((cell) => Math.abs(cell.gain)).sort((a, b) => a - b), most = values[Math.floor(0.98 * (values.length - 1))] || 1;
    const low = S.altitudes[0], span = S.altitudes[S.n - 1] - low || 1;
    const s = svg("svg", { width: W, height: top + high * months.size + 4, role: "img", "aria-label": `${p.name}, day by day: ${gains ? "net energy above fixed" : "mean altitude"}` }, box);
    const text = (x, y, words, anchor, ink) => { svg("text", { x, y, fill: css(ink || "--soft"), "font-size": 12, "text-anchor": anchor }, s).textContent = words; };
    for (const d of [1, 5, 10, 15, 20, 25, 30]) text(x0 + (d - 0.5) * size, 12, d, "middle");
    const x1 = Math.min(W - 2, x0 + 31 * size + end - 4);
    text(x1, 12, gains ? "kWh" : "mean, m", "end");
    [...months.keys()].sort((a, b) => a - b).forEach((key, i) => {
      const y = top + i * high; let sum = 0, count = 0;
      text(x0 - 6, y + 0.75 * high, `${MONTHS[key % 12]} ${Math.floor(key / 12)}`, "end");
      for (const [date, day, cell] of months.get(key)) {
        const u = gains ? Math.min(1, Math.abs(cell.gain) / most) : (cell.altitude - low) / span, fill = gains ? `rgba(${cell.gain >= 0 ? "40,110,200" : "200,60,40"},${(0.06 + 0.94 * u).toFixed(2)})` : `rgb(${shade(0.1 + 0.9 * u).map(Math.round).join(",")})`;
        const cellBox = svg("rect", { x: x0 + (date - 1) * size, y, width: size - 1, height: high - 1, fill, tabindex: -1 }, s);
        svg("title", {}, cellBox).textContent = `${new Date(day * 86400000).toISOString().slice(0, 10)}: ${cell.gain >= 0 ? "+" : "\u2212"}${kwh(Math.abs(cell.gain), 1)} kWh against fixed, ${Math.round(cell.altitude)} m on average`;
        cellBox.style.cursor = "pointer";
        cellBox.onclick = () => { const t = indexOf(day * 86400); view.hover = Math.min(t, S.T - 1); view.pinned = false; look((day - 3) * 86400, (day + 4) * 86400); explain(); };
        sum += gains ? cell.gain : cell.altitude; count++;
      }
      text(x1, y + 0.75 * high, gains ? `${sum >= 0 ? "+" : "\u2212"}${kwh(Math.abs(sum))}` : kwh(sum / count), "end", "--ink");
    });
    $("calendar-title").textContent = gains ? `Day by day: net energy of ${p.name} above fixed` : `Day by day: mean altitude of ${p.name}`;
    $("calendar-note").textContent = gains ? `Blue: more than fixed, red: less; the darkest cells are ${kwh(most)} kWh a day or more. Click a day to see its hours below.` : `From ${Math.round(low)} m to ${Math.round(low + span)} m. Click a day to see its hours below.`;
  };

  // ---- bars and what-if
  const drawBars = () => {
    const box = $("bars"); box.replaceChildren();
    const most = Math.max(...S.lines.map((line) => line.gross)), W = 600;
    S.lines.forEach((line, i) => {
      const p = S.by[line.policy], row = element("div", undefined, box); row.className = "bar-row";
      element("span", p.name + (p.know ? " *" : ""), row).className = "name";
      const s = svg("svg", { viewBox: `0 0 ${W} 30`, preserveAspectRatio: "none", role: "img", "aria-label": `${p.name}: net ${kwh(line.net)} kWh, lost ${kwh(line.moving)} kWh` }, row);
      const hatch = svg("pattern", { id: `hatch${i}`, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("defs", {}, s));
      svg("rect", { width: 3, height: 7, fill: p.colour }, hatch);
      const net = Math.max(0, line.net) / most * W, gross = Math.max(0, line.gross) / most * W;
      svg("rect", { x: 0, y: 3, width: net, height: 24, fill: p.colour }, s);
      svg("rect", { x: net, y: 3, width: Math.max(0, gross - net), height: 24, fill: `url(#hatch${i})`, stroke: p.colour }, s);
      const note = element("span", `${kwh(line.net)} net, ${kwh(line.moving)} lost`, row);
      note.className = "small"; note.style.gridColumn = "2";
    });
  };
  const drawRho = () => {
    const rhos = S.what_if.map((w) => w.rho), gains = S.what_if.some((w) => w.lines.some((line) => line.gain !== null));
    $("what-if").hidden = rhos.length < 2;
    if (rhos.length < 2) return;
    const c = surface("rho"), { g } = c;
    const names = S.policies.map((p) => p.name).filter((name) => S.what_if.every((w) => w.lines.some((line) => line.policy === name)));
    const series = names.map((name) => ({ p: S.by[name], lines: S.what_if.map((w) => w.lines.find((line) => line.policy === name)) }));
    const pick = (line) => (gains ? line.gain : line.share);
    const all = series.flatMap((s) => s.lines.flatMap((line) => [pick(line), gains ? line.gain_low : null, gains ? line.gain_high : null])).filter((v) => v !== null);
    let low = Math.min(0, ...all), high = Math.max(0, ...all); const pad = 0.08 * (high - low) || 1; low -= pad; high += pad;
    const a = Math.log(rhos[0]), b = Math.log(rhos[rhos.length - 1]), X = (r) => c.x0 + ((Math.log(r) - a) / (b - a)) * (c.x1 - c.x0 - 12), Y = (v) => c.y1 - 14 - ((v - low) / (high - low)) * (c.y1 - 14 - c.y0);
    drawValueAxis(c, Y, nice(low, high, 5), (v) => (gains && v > 0 ? "+" : "") + +v.toFixed(6) + " %", true);
    g.textAlign = "center"; g.textBaseline = "top"; g.fillStyle = css("--soft");
    let last = -Infinity;
    for (const r of rhos) { g.fillRect(X(r), c.y1 - 14, 1, 5); if (X(r) - last > 44) { g.fillText(`${+(S.climb / r).toPrecision(2)}`, X(r), c.y1 - 7); g.fillText(`\u03c1 ${+r.toPrecision(3)}`, X(r), c.y1 + 9); last = X(r); } }
    g.textAlign = "left"; g.fillText("kWh/m", c.x1 + 22, c.y1 - 7);
    for (const { p, lines } of series) {
      if (!gains || p.know || lines.some((line) => line.gain_low === null)) continue;
      g.fillStyle = p.colour; g.globalAlpha = 0.16; g.beginPath();
      lines.forEach((line, i) => g.lineTo(X(rhos[i]), Y(line.gain_high)));
      lines.map((line, i) => [line, i]).reverse().forEach(([line, i]) => g.lineTo(X(rhos[i]), Y(line.gain_low)));
      g.fill(); g.globalAlpha = 1;
    }
    const labels = [];
    for (const { p, lines } of series) {
      stroke(g, p, 2.6, () => lines.forEach((line, i) => g.lineTo(X(rhos[i]), Y(pick(line)))));
      if (!p.know) lines.forEach((line, i) => { g.fillStyle = p.colour; g.beginPath(); g.arc(X(rhos[i]), Y(pick(line)), 4, 0, 7); g.fill(); });
      labels.push({ p, y: Y(pick(lines[lines.length - 1])) });
    }
    endLabels(c, labels);
  };

  // ---- controls
  let drag = null;
  const drawTimes = () => { drawField(); drawSum(); drawOver(); };
  const drawAll = () => { drawCalendar(); drawTimes(); drawBars(); drawRho(); explain(); };
  const look = (from, to) => {
    const first = S.time[0], last = end(S.T - 1), span = Math.min(Math.max(to - from, 12 * S.step_hours * 3600), last - first);
    view.from = Math.min(Math.max(from, first), last - span); view.to = view.from + span; drawTimes();
  };
  const chips = () => {
    const box = $("chips"); box.replaceChildren();
    for (const p of S.policies) {
      const chip = element("button", undefined, box); chip.type = "button"; chip.className = "chip"; chip.title = p.says;
      const swatch = element("span", undefined, chip); swatch.className = "swatch" + (p.know ? " know" : ""); swatch.style.borderTopColor = p.colour;
      chip.append(p.name); chip.setAttribute("aria-pressed", view.shown.has(p.name));
      chip.onclick = () => { view.shown.has(p.name) ? view.shown.delete(p.name) : view.shown.add(p.name); chip.setAttribute("aria-pressed", view.shown.has(p.name)); drawTimes(); explain(); };
    }
  };
  const choose = (k) => {
    view.site = k; S = open(k); view.hover = null; view.pinned = false; view.from = S.time[0]; view.to = end(S.T - 1);
    view.shown = new Set(S.shown); view.focus = S.focus;
    const focus = $("focus"); focus.replaceChildren();
    for (const p of S.policies) { const o = element("option", p.name, focus); o.value = p.name; }
    focus.value = view.focus; chips();
    view.hover = nextMove(-1, 1); // something to read before the first touch
    if (view.to - view.from > LONG * 86400) { // of a long time, the two weeks around the day that gained most
      let best = null; for (const [day, cell] of daily(S.by[view.focus])) if (best === null || cell.gain > best[1].gain) best = [day, cell];
      const t = nextMove(Math.max(0, indexOf(best[0] * 86400) - 1), 1);
      if (t !== null) view.hover = t;
      view.from = Math.max(S.time[0], (best[0] - 6) * 86400); view.to = Math.min(end(S.T - 1), view.from + 14 * 86400);
    }
    drawAll();
  };
  const nextMove = (from, step) => {
    const p = S.by[view.focus];
    for (let t = from + step; t >= 0 && t < S.T; t += step) if (p.actions[t] !== p.before(t)) return t;
    return null;
  };
  const jump = (step) => {
    const t = nextMove(view.hover === null ? (step > 0 ? -1 : S.T) : view.hover, step);
    if (t === null) return;
    const half = Math.min(3.5 * 86400, (view.to - view.from) / 2); view.hover = t; view.pinned = true;
    look(S.time[t] - half, S.time[t] + half); explain();
  };
  for (const id of ["field-over", "sum-over"]) {
    const canvas = $(id), place = (event) => {
      const box = canvas.getBoundingClientRect(), a = left, b = box.width - right(box.width), x = Math.min(Math.max(event.clientX - box.left, a), b);
      return { x, seconds: view.from + ((x - a) / (b - a)) * (view.to - view.from) };
    };
    canvas.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (drag) drag.to = at.x;
      const t = under(at.seconds);
      if (!view.pinned && t >= 0) { view.hover = t; explain(); }
      drawOver();
    });
    canvas.addEventListener("pointerdown", (event) => { const at = place(event); drag = { from: at.x, to: at.x, begin: at.seconds }; });
    canvas.addEventListener("pointerup", (event) => {
      if (!drag) return;
      const at = place(event), { from, begin } = drag; drag = null;
      if (Math.abs(at.x - from) > 6) look(Math.min(begin, at.seconds), Math.max(begin, at.seconds));
      else { const t = under(at.seconds); view.pinned = !view.pinned; if (t >= 0) view.hover = t; explain(); drawOver(); }
    });
    canvas.addEventListener("pointerleave", () => { drag = null; drawOver(); });
    canvas.addEventListener("dblclick", () => look(S.time[0], end(S.T - 1)));
  }
  document.querySelectorAll("[data-span]").forEach((button) => (button.onclick = () => {
    const days = +button.dataset.span, middle = view.hover === null ? (view.from + view.to) / 2 : S.time[view.hover];
    days ? look(middle - days * 43200, middle + days * 43200) : look(S.time[0], end(S.T - 1));
  }));
  const shift = (by) => look(view.from + by * (view.to - view.from), view.to + by * (view.to - view.from));
  $("back").onclick = () => shift(-0.5); $("forward").onclick = () => shift(0.5);
  $("prev-move").onclick = () => jump(-1); $("next-move").onclick = () => jump(1);
  $("colour").onchange = (event) => { view.colour = event.target.value; drawField(); };
  $("focus").onchange = (event) => { view.focus = event.target.value; view.shown.add(view.focus); chips(); drawCalendar(); drawTimes(); explain(); };
  $("calendar-shows").onchange = () => drawCalendar();
  $("absolute").onchange = (event) => { view.absolute = event.target.checked; drawSum(); drawOver(); };
  $("theme").onclick = () => { root.dataset.theme = dark() ? "light" : "dark"; drawAll(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
  window.addEventListener("resize", () => drawAll());
  window.addEventListener("beforeprint", () => drawAll());
  // report.html#dark, #light, #move: for pictures and links
  const asked = location.hash.slice(1).split(",");
  for (const theme of ["dark", "light"]) if (asked.includes(theme)) root.dataset.theme = theme;
  $("charts").hidden = false;
  if (data.sites.length > 1) {
    $("site-label").hidden = false;
    data.sites.forEach((site, k) => { const o = element("option", site.name, $("site")); o.value = k; });
    $("site").onchange = (event) => choose(+event.target.value);
  }
  choose(0);
  if (asked.includes("move")) { view.hover = null; jump(1); }
})();
