// The view of one fleet: what is set up, what its members run now, and its record. Programs ask and tell; here one looks.

import { fleetPathOf, get, may } from "./api.js";
import { agoOf, statusBadge, timeOf } from "./badges.js";
import { connect } from "./connection.js";
import { announce, drawn, fill, h } from "./dom.js";
import { calmly } from "./feed.js";
import { histogram, memberTable } from "./fleet_members.js";
import { stateOf } from "./fleets.js";
import { tile } from "./panels.js";
import { recordPanel } from "./record.js";
import { costUnit, fleetStatus, number, plural, setting, share, withUnit } from "./words.js";
import { useZone } from "./zone.js";

const REFRESH = 1000; // milliseconds: a call of thousands of members is no small thing to look at
const WHAT_IT_LACKS = "A fleet has no limits, modes, overrides, trials or alarms, and only programs ask and tell it. If a machine needs any of these, give it a controller.";

const section = (id, title, ...children) => h("section", { "aria-labelledby": id }, h("h2", { id }, title), children);

/** How many rounds members have had, where that is not the same for all. */
const roundsOf = ([fewest, most]) => (fewest === most ? `${plural(most, "round")} of each member` : `${fewest.toLocaleString("en")} to ${plural(most, "round")} of each member`);

/** What was measured in all: a sum, or why there is none. */
function measuredTile({ maximise, units }, sums) {
  const label = maximise ? "Made so far" : "Service cost";
  if (!sums) return tile(label, "…", "being added up from the record");
  const counted = `${plural(sums.measurements, "measurement")}${sums.skipped ? `, ${sums.skipped.toLocaleString("en")} skipped` : ""}`;
  const part = sums.seen < sums.events ? `; ${share(sums.seen / sums.events)} of the record is added up` : "";
  if (sums.measurements_sum === null) return tile("Measurements", sums.measurements.toLocaleString("en"), `${sums.skipped.toLocaleString("en")} skipped; they are not costs, so there is no sum${part}`);
  const mean = sums.measurements ? `, ${withUnit(number(sums.measurements_sum / sums.measurements), units?.measurement)} each on average` : "";
  return tile(label, withUnit(number(sums.measurements_sum), costUnit({ units })), `${counted}${mean}${part}`);
}

function tiles() {
  const node = h("dl", { class: "tiles" });
  const draw = drawn(node, (state, sums) => [
    tile("Members", state.count.toLocaleString("en"), `policy ${state.policy}, in lockstep`),
    tile("Measurements awaited", state.pending.toLocaleString("en"), state.pending ? `${share(state.pending / state.count)} of the members` : "of no member"),
    tile("Asked", state.next_call ? plural(state.next_call, "time") : "never", roundsOf(state.rounds)),
    measuredTile(state, sums),
    tile("Movement cost", sums ? withUnit(number(sums.movement), costUnit(state)) : "…", sums ? plural(sums.moves, "move") : "being added up from the record"),
  ]);
  return { node, update: ({ count, policy, pending, next_call, rounds, maximise, units }, sums) => draw({ count, policy, pending, next_call, rounds, maximise, units }, sums) };
}

/** The seeds of all members; one that is too long for a number here is said by the service only. */
const seedsOf = ({ seed, count }) => (!Number.isSafeInteger(seed + count) ? "" : count === 1 ? String(seed) : `${seed} to ${seed + count - 1}, one for each member`);

function facts() {
  const node = h("dl", { class: "facts" });
  const draw = drawn(node, (state) => {
    const unit = state.units?.action;
    const { settings } = state;
    const ends = `${setting(settings[0], unit)} … ${setting(settings.at(-1), unit)} (${settings.length.toLocaleString("en")})`;
    const known = (state.context_names ?? []).map((name, i) => [name, state.units?.contexts?.[i] && `(${state.units.contexts[i]})`].filter(Boolean).join(" "));
    const rows = [
      ["Settings", settings.length > 6 ? ends : withUnit(settings.map((v) => setting(v)).join(", "), unit)],
      ["Start", setting(state.start, unit)],
      ["What moving costs", state.price_in_words],
      ["Measured is", state.maximise ? "a gain: more is better" : "a cost: less is better"],
      ["Known before each decision", known.join(", ")],
      ["Policy", state.policy],
      ["How it decides", state.explanation],
      ["Seeds", seedsOf(state)],
      ["Created", timeOf(state.created_at)],
      ["Id", state.id],
    ];
    return rows.filter(([, v]) => v).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
  });
  return {
    node,
    update: ({ id, settings, start, units, price_in_words, maximise, context_names, policy, explanation, seed, count, created_at }) =>
      draw({ id, settings, start, units, price_in_words, maximise, context_names, policy, explanation, seed, count, created_at }),
  };
}

export function fleetView(main, id) {
  useZone(undefined); // the browser's: a fleet has none of its own
  const title = h("h1", { tabindex: "-1" }, id);
  const under = h("p", { class: "under" });
  const parts = { tiles: tiles(), at: histogram(), facts: facts(), members: memberTable(), record: recordPanel(id, fleetPathOf) };
  let seen = -1; // events of the record when members and sums were looked at
  let spoken = "";

  const drawTitle = drawn(under, (status, last) => [
    statusBadge(status, fleetStatus(status).long),
    h("span", {}, fleetStatus(status).long),
    h("span", { class: "small" }, "Last activity ", agoOf(last)),
  ]);

  function draw(state, sums) {
    content.hidden = false;
    if (title.textContent !== state.name) title.textContent = state.name;
    document.title = `${state.name} · holdcourse`;
    drawTitle(stateOf(state), state.last_at);
    parts.tiles.update(state, sums);
    parts.at.update(state);
    parts.facts.update(state);
    const sentence = `${state.name}: ${state.pending ? `${plural(state.pending, "measurement is", "measurements are")} awaited` : "no measurement is awaited"}.`;
    if (spoken && sentence !== spoken) announce(sentence); // a change, not every look
    spoken = sentence;
  }

  let sums = null;
  async function refresh() {
    const state = await get(fleetPathOf(id));
    draw(state, sums);
    if (state.events === seen) return;
    const members = await get(fleetPathOf(id, "members"));
    seen = state.events;
    parts.members.update(state, members);
    do {
      sums = await get(fleetPathOf(id, "sums"));
      parts.tiles.update(state, sums);
    } while (sums.seen < sums.events && !stopped);
  }
  let stopped = false;
  const refreshing = calmly(refresh, REFRESH);
  const load = async () => {
    parts.record.update(await may(id));
    await refresh();
  };

  const content = h(
    "div",
    { hidden: true }, // until there is something to show
    parts.tiles.node,
    h("div", { class: "split even" }, section("now", "What its members run now", parts.at.node), section("setup", "What is set up", parts.facts.node)),
    section("members", "Members", parts.members.node),
    section("record", "Record", parts.record.node),
    h("p", { class: "small foot" }, WHAT_IT_LACKS),
  );
  fill(main, h("p", { class: "crumbs" }, h("a", { href: "#/" }, "← All controllers and fleets")), title, under, content);

  const leave = () => location.hash !== "#/" && (location.hash = "#/");
  const link = connect(fleetPathOf(id, "events"), load, (kind, data) => (data?.deleted ? leave() : refreshing.call()));
  return {
    title,
    stop() {
      stopped = true;
      link.stop();
      refreshing.stop();
    },
  };
}
