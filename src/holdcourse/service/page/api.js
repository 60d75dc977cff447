// Talking to the service. Addresses are relative, so the page also works behind a proxy that adds a prefix.

import { noteClock } from "./words.js";

const KEY = "holdcourse-token";

/** Kept for this tab only: closing it forgets the token. */
export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

/** An answer that is not a success. `status` is 0 when the service could not be reached. */
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const headers = (more = {}) => (token.get() ? { Authorization: `Bearer ${token.get()}`, ...more } : more);

let askForToken = null;
/** Set what is called when a token is missing or wrong; it returns a promise that resolves when there is a new one. */
export const onTokenNeeded = (ask) => (askForToken = ask);

async function refusal(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // Not JSON: something between us and the service answered.
  }
  return new Refused(response.status, error.code ?? "", error.message ?? `The service answered ${response.status}.`);
}

/** A request that asks for a token when one is needed, and then tries again. */
export async function send(path, options = {}) {
  for (;;) {
    const used = token.get();
    let response;
    try {
      response = await fetch(path, { cache: "no-store", ...options, headers: headers(options.headers) });
    } catch (problem) {
      if (options.signal?.aborted) throw problem;
      throw new Refused(0, "unreachable", "The service cannot be reached.");
    }
    if (response.headers.has("Date")) noteClock(response.headers.get("Date"));
    if (response.ok) return response;
    if (response.status !== 401) throw await refusal(response);
    const why = await refusal(response);
    if (used === token.get()) await askForToken(used ? why.message : null); // else another request got a new one already
  }
}

const soon = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Look at a job until it is over; `report(job)` is called at every look. While the service is away it is looked for. */
async function follow(job, report) {
  for (let pause = 200; ; pause = Math.min(1.3 * pause, 2000)) {
    report(job);
    if (job.state === "done") return job.result;
    if (job.state === "failed") throw new Refused(job.status, job.error.code, job.error.message);
    await soon(pause);
    try {
      job = await (await send(job.address.slice(1))).json();
    } catch (problem) {
      if (problem.status !== 0) throw problem;
      report({ ...job, words: problem.message });
    }
  }
}

/** What a request is answered with; what became a job (202) is followed until it is over. */
async function answer(response, report = () => {}) {
  const said = await response.json();
  return response.status === 202 ? follow(said, report) : said;
}

export const get = async (path, report) => answer(await send(path), report);

async function carrying(method, path, body, report) {
  const options = { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return answer(await send(path, options), report);
}

export const post = (path, body, report) => carrying("POST", path, body, report);
export const patch = (path, body) => carrying("PATCH", path, body);
export const cancelJob = (job) => send(job.address.slice(1), { method: "DELETE" });

/** Delete what is at an address. */
export const destroy = async (path) => (await send(path, { method: "DELETE" })).json();

/** Send a file as it is. */
export const postFile = async (path, file, report) =>
  answer(await send(path, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file }), report);

/** Send a table of readings; its first bytes say what it is, so one kind does for all. */
export const postTable = async (path, file, report) =>
  answer(await send(path, { method: "POST", headers: { "Content-Type": "text/csv" }, body: file }), report);

let known = null; // what the token in use allows

/** What the reader may do on a controller, or on any without one: { tell, admin }; `all`: on all of them. */
export async function may(id = null) {
  if (known?.token !== token.get()) known = { ...(await get("me")), token: token.get() };
  const here = id === null || known.controllers.includes("*") || known.controllers.includes(id);
  const has = (scope) => here && (known.scopes.includes(scope) || known.scopes.includes("admin"));
  return { tell: has("tell"), admin: has("admin"), all: known.controllers.includes("*") };
}

export const fleetPathOf = (id, ...rest) => ["fleets", encodeURIComponent(id), ...rest].join("/");
export const pathOf = (id, ...rest) => ["controllers", encodeURIComponent(id), ...rest].join("/");
