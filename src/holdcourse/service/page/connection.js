// What the page says about its connection: one word in the header while it lives, a banner when it does not.

import { fill, h, say } from "./dom.js";
import { follow } from "./live.js";

const BACK_SHOWN = 5000; // milliseconds

let current = null;
let lost = false;
let timers = [];

const banner = () => document.getElementById("banner");
const link = () => document.getElementById("link");

function clearTimers() {
  timers.forEach(clearTimeout);
  timers = [];
}

/** What the service said, with the end of a sentence; it may begin with an id, which has no capital letter. */
const sentence = (text) => `${text}${/[.!?]$/.test(text) ? "" : "."}`;

/** `refused`: the service answered, and cannot show it now; else it could not be reached. */
function showLost({ wait, message, refused }) {
  clearTimers();
  link().className = "link off";
  say(link(), "not live");
  const next = h("span", { "aria-hidden": "true" });
  const until = Date.now() + wait * 1000;
  const tick = () => {
    const left = Math.max(0, Math.ceil((until - Date.now()) / 1000));
    say(next, left > 0 ? ` Trying again in ${left} s. ` : " Trying again … ");
    timers.push(setTimeout(tick, 500));
  };
  if (!lost || banner().dataset.message !== message) {
    // Drawn once per outage: a live region must not speak at every try.
    banner().className = "banner lost";
    banner().dataset.message = message;
    fill(
      banner(),
      h("strong", {}, refused ? "This cannot be shown now: " : "Connection lost. "),
      h("span", {}, `${sentence(message)}${refused ? "" : " What you see may be out of date."}`),
      h("span", { class: "next" }),
      h("button", { type: "button", onclick: () => current?.retry() }, "Try now"),
    );
    banner().hidden = false;
  }
  fill(banner().querySelector(".next"), next);
  tick();
  lost = true;
  document.body.classList.add("offline");
}

/** Without what a program could ask for instead: a person has the link. */
function showGone({ message }) {
  clearTimers();
  link().className = "link off";
  say(link(), "not live");
  banner().className = "banner lost";
  fill(banner(), h("strong", {}, "Nothing to show: "), `${sentence(message.split(";")[0])} `, h("a", { href: "#/" }, "All controllers"));
  banner().hidden = false;
}

function showLive() {
  clearTimers();
  link().className = "link on";
  say(link(), "live");
  document.body.classList.remove("offline");
  if (!lost) return;
  lost = false;
  banner().className = "banner back";
  delete banner().dataset.message;
  fill(banner(), h("strong", {}, "Back. "), "The connection is back and everything is up to date.");
  timers.push(setTimeout(() => (banner().hidden = true), BACK_SHOWN));
}

// Whoever comes back to the page, or to the network, need not wait for the next try.
addEventListener("online", () => current?.retry());
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && current?.retry());

/** Follow a stream of events, telling the reader how the connection does. Only one is followed at a time. */
export function connect(path, onOpen, onEvent) {
  current?.stop();
  if (!lost) {
    banner().hidden = true;
    link().className = "link";
    say(link(), "connecting …");
  }
  const onState = (state) => (state.gone ? showGone(state) : state.live ? showLive() : showLost(state));
  current = follow(path, { onOpen, onEvent, onState });
  return current;
}
