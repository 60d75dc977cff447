// Server-sent events, read by fetch: the browser's own EventSource cannot send the token.

import { Refused, send } from "./api.js";

const FIRST_WAIT = 0.5; // seconds
const LONGEST_WAIT = 15;
const SILENCE = 45; // the service sends a line every 15 s; after three missed ones the connection is taken for dead
const NO_USE = [403, 404, 422]; // not ours to see, or not there

/** Cut a stream of text into events; what is incomplete is kept for the next piece. */
export function parser(onEvent) {
  let rest = "";
  return (text) => {
    const blocks = (rest + text).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const of = (name) => lines.filter((l) => l.startsWith(`${name}:`)).map((l) => l.slice(name.length + 1).trimStart());
      const data = of("data").join("\n");
      if (data) onEvent(of("event")[0] ?? "message", JSON.parse(data));
    }
  };
}

async function listen(path, signal, opened, onEvent) {
  const silence = new AbortController();
  const either = AbortSignal.any([signal, silence.signal]);
  let timer;
  const restartTimer = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE * 1000);
  };
  restartTimer();
  try {
    const response = await send(path, { signal: either, headers: { Accept: "text/event-stream" } });
    await opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const feed = parser(onEvent);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      restartTimer();
      feed(value);
    }
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Follow the events of `path` until `stop()` is called, connecting again whenever the connection is lost.
 *
 * `onOpen` runs after each connection, first or not: it loads what was missed. `onState` hears
 * { live: true }, { live: false, wait: seconds until the next try, message, refused }, or { gone: true, message } when there is
 * nothing to follow and trying again would not help.
 */
export function follow(path, { onOpen, onEvent, onState }) {
  const ended = new AbortController();
  let wake = () => {};
  let wait = FIRST_WAIT;

  const pause = (seconds) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds * 1000);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  const run = async () => {
    while (!ended.signal.aborted) {
      let message = "The service does not answer.";
      let refused = false; // whether it answered, and had nothing to show
      try {
        const opened = async () => {
          await onOpen();
          wait = FIRST_WAIT;
          if (!ended.signal.aborted) onState({ live: true });
        };
        await listen(path, ended.signal, opened, onEvent);
      } catch (problem) {
        refused = problem instanceof Refused && problem.status !== 0;
        if (refused) message = problem.message;
        if (ended.signal.aborted) return;
        if (problem instanceof Refused && NO_USE.includes(problem.status)) return onState({ gone: true, message });
      }
      if (ended.signal.aborted) return;
      onState({ live: false, wait, message, refused });
      // Many pages must not all come back in the same moment: up to a quarter more, by chance.
      await pause(wait * (1 + 0.25 * Math.random()));
      wait = Math.min(2 * wait, LONGEST_WAIT);
    }
  };
  run();

  return {
    retry: () => wake(),
    stop: () => {
      ended.abort();
      wake();
    },
  };
}
