// What is known of one controller, kept up to date: its state, its newest decisions, and the learned field.

import { get, may, pathOf, Refused } from "./api.js";
import { merged } from "./rows.js";

export const PAGE_OF_ROWS = 240;
const MOST_ROWS = 10_000; // a page that stays open for months must not grow
const MOST_AT_ONCE = 1000; // rows that the service gives
const NEWEST = 40; // rows looked at again after an event: some may have been measured since
const REFRESH = 400; // milliseconds: events come faster than anybody reads
const FIELD_AGE = 8000; // milliseconds: the field costs the service more than the rest

/** Runs `task` after `wait`, once, however often it is called meanwhile. */
export function calmly(task, wait) {
  let timer = null;
  let running = null;
  const run = async () => {
    timer = null;
    running = task();
    try {
      await running;
    } catch {
      // The connection tells the reader when the service is away.
    } finally {
      running = null;
    }
  };
  return {
    call: () => (timer ??= setTimeout(run, running ? 2 * wait : wait)),
    stop: () => clearTimeout(timer),
  };
}

export class Feed {
  constructor(id, onChange) {
    Object.assign(this, { id, onChange, state: null, rows: [], more: false, field: null, fieldNote: "", alarms: [], scopes: {} });
    this.fieldAt = 0;
    this.deeds = 0; // counts what people did, as far as it was heard of
    this.wanted = PAGE_OF_ROWS; // rows that are to be there
    this.looked = Infinity; // the round before which nobody has looked for rows
    this.outdated = false; // whether rows of long ago may have changed
    this.refreshing = calmly(() => this.refresh(), REFRESH);
  }

  /** What the reader may do: one that is put away is only looked at, until somebody who may brings it back. */
  get may() {
    return this.state?.archived ? {} : this.scopes;
  }

  decisions(query) {
    return get(`${pathOf(this.id, "decisions")}?${new URLSearchParams(query)}`);
  }

  /** Everything anew: at the start, and after the connection was lost. */
  async load() {
    const limit = Math.min(this.wanted, MOST_AT_ONCE);
    const [state, page] = await Promise.all([get(pathOf(this.id, "state")), this.decisions({ limit })]);
    this.deeds++;
    this.scopes = await may(this.id);
    this.state = state;
    this.rows = merged([], page.decisions);
    this.looked = Infinity;
    this.more = page.more;
    this.onChange();
    await Promise.all([this.loadField(), this.loadAlarms()]);
    this.onChange();
    await this.want(this.wanted);
  }

  /** Have so many rows, if there are so many. */
  async want(count) {
    this.wanted = Math.min(count, MOST_ROWS);
    while (this.rows.length < this.wanted && this.more) await this.loadEarlier(this.wanted - this.rows.length);
  }

  async refresh() {
    if (this.outdated) {
      this.outdated = false;
      return this.load();
    }
    const [state, page] = await Promise.all([get(pathOf(this.id, "state")), this.decisions({ limit: NEWEST })]);
    const newest = this.rows.at(-1)?.round ?? -1;
    const gap = page.decisions.length === NEWEST && merged([], page.decisions)[0].round > newest + 1;
    if (gap || (this.state && state.epoch !== this.state.epoch)) return this.load();
    const other = JSON.stringify(state.alarms) !== JSON.stringify(this.state?.alarms);
    this.state = state;
    this.rows = merged(this.rows, page.decisions).slice(-MOST_ROWS);
    if (other) await this.loadAlarms();
    if (Date.now() - this.fieldAt > FIELD_AGE) await this.loadField();
    this.onChange();
  }

  async loadField() {
    this.fieldNote = "Nothing has been learned yet: the colours come with the first measurements.";
    if (this.rows.length === 0) return;
    this.fieldAt = Date.now();
    try {
      const field = await get(pathOf(this.id, "field"));
      this.field = field.mean?.length ? field : null;
      if (this.field) this.fieldNote = "";
      else if (this.rows.some((row) => row.told_at)) this.fieldNote = "No colours: this policy does not learn, or predicts only future rounds.";
    } catch (problem) {
      if (!(problem instanceof Refused) || problem.status === 0) throw problem;
      this.field = null;
      this.fieldNote = `Nothing learned to show: ${problem.message}`;
    }
  }

  async loadAlarms() {
    this.alarms = (await get(pathOf(this.id, "alarms"))).alarms;
  }

  async loadEarlier(count = PAGE_OF_ROWS) {
    const end = Math.min(this.rows[0]?.round ?? 0, this.looked); // rounds of an epoch that was moved away are not there
    const from = Math.max(end - Math.min(count, MOST_AT_ONCE), 0);
    const page = end > from ? await this.decisions({ after: from - 1, limit: end - from }) : { decisions: [] };
    this.rows = merged(page.decisions.filter((row) => row.round < end), this.rows);
    this.looked = from;
    this.more = from > 0 && this.rows.length < MOST_ROWS;
    this.onChange();
  }

  /** Something happened. */
  hear(kind) {
    if (!["decision", "tell", "alarm"].includes(kind)) this.deeds++;
    if (kind === "retract") this.outdated = true;
    this.refreshing.call();
  }

  stop() {
    this.refreshing.stop();
  }
}
