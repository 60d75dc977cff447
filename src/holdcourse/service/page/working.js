// How far a job is: a bar, and what is being done.

import { fresh, h, say } from "./dom.js";

const STATES = { waiting: "Waiting", running: "Beginning", done: "Done", failed: "Not done" };

/** A bar for the job that a request may become; hidden until it does. `job` is the job while it is under way, else null. */
export function working() {
  const id = fresh("working");
  const words = h("span", { class: "small", id });
  const bar = h("progress", { max: 1, "aria-labelledby": id });
  const node = h("p", { class: "working", hidden: true }, bar, " ", words);
  const shown = { node, job: null, report, end };

  function report(job) {
    shown.job = ["waiting", "running"].includes(job.state) ? job : null;
    node.hidden = false;
    if (job.state === "waiting") bar.removeAttribute("value");
    else bar.value = job.progress;
    const share = job.state === "running" ? `${Math.floor(100 * job.progress)}\u00a0%: ` : "";
    say(words, `${share}${job.words || STATES[job.state]}`);
  }

  function end() {
    shown.job = null;
    node.hidden = true;
  }
  return shown;
}
