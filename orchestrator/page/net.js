// The way to the daemon: requests, and event streams that come back by themselves.
//
// Streams are read with fetch, since an EventSource can send no key. A browser opens six connections to one server at
// most, over all its tabs, so a page holds one stream, and a second while it shows a run; in a hidden tab it holds none.

import { askForKey, key } from "./key.js";

const SILENCE = 40_000; // the daemon breaks its silence every 15 s
const FIRST_PAUSE = 300;
const LONGEST_PAUSE = 5_000;

export class Refused extends Error {
  constructor(status, message, kind) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

async function send(method, path, body, headers, signal) {
  for (;;) {
    const sent = key();
    const all = { ...headers };
    if (sent) all.authorization = `Bearer ${sent}`;
    if (body !== undefined) all["content-type"] = "application/json";
    const answer = await fetch(path, {
      method,
      headers: all,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      signal,
    });
    if (answer.ok) return answer;
    const error = await problem(answer);
    if (answer.status !== 401) throw error;
    await askForKey(sent, error.message);
  }
}

async function problem(answer) {
  try {
    const { error } = await answer.json();
    return new Refused(answer.status, error.message, error.kind);
  } catch {
    return new Refused(answer.status, `the daemon answered ${answer.status}`, "");
  }
}

export async function get(path, signal) {
  return (await send("GET", path, undefined, {}, signal)).json();
}

export async function post(path, body) {
  return (await send("POST", path, body, {})).json();
}

// A random id, also where the page did not come over a secure way.
export function freshId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) => one.toString(16).padStart(2, "0")).join("");
}

export const visible = () => document.visibilityState === "visible";

// Follows a stream until `stop` is called or `onEvent` returns true. `onState` hears "connected", "lost", "paused",
// "ending" and "refused". After a break it goes on behind the last event that had an id.
export function follow(path, { onEvent, onState = () => {} }) {
  let stopped = false;
  let lastId = "";
  let pause = FIRST_PAUSE;
  let wake = () => {};
  let cut = null;

  const changed = () => {
    if (!visible()) cut?.abort();
    wake();
  };
  document.addEventListener("visibilitychange", changed);
  addEventListener("online", changed);

  const rest = (milliseconds) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  const once = async () => {
    cut = new AbortController();
    let watchdog = setTimeout(() => cut.abort(), SILENCE);
    try {
      const headers = { accept: "text/event-stream" };
      if (lastId) headers["last-event-id"] = lastId;
      const answer = await send("GET", path, undefined, headers, cut.signal);
      onState("connected");
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const parse = parser();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return false;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => cut.abort(), SILENCE);
        for (const event of parse(value)) {
          if (stopped) return true;
          if (event.id) lastId = event.id;
          pause = FIRST_PAUSE;
          if (event.name === "closing") onState("ending");
          else if (event.name !== "error" && onEvent(event.name, JSON.parse(event.data), event.id)) return true;
        }
      }
    } finally {
      clearTimeout(watchdog);
    }
  };

  const run = async () => {
    while (!stopped) {
      if (!visible()) {
        onState("paused");
        await rest(3_600_000);
        continue;
      }
      try {
        if (await once()) break;
        if (!stopped) onState("lost");
      } catch (error) {
        if (stopped) break;
        if (error instanceof Refused && error.status < 500 && error.status !== 429) {
          onState("refused", error);
          break;
        }
        onState(visible() ? "lost" : "paused");
      }
      if (!stopped && visible()) await rest(pause * (0.75 + Math.random() / 2));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
    document.removeEventListener("visibilitychange", changed);
    removeEventListener("online", changed);
  };
  run();
  return () => {
    stopped = true;
    cut?.abort();
    wake();
  };
}

// The events in pieces of a stream (WHATWG HTML, "Server-sent events"), as far as the daemon makes use of them.
export function parser() {
  let rest = "";
  let event = { name: "message", data: "", id: "" };
  return (piece) => {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    const found = [];
    for (const line of lines) {
      if (line === "") {
        if (event.data !== "") found.push({ ...event, data: event.data.slice(1) });
        event = { name: "message", data: "", id: "" };
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") event.data += `\n${value}`;
      else if (field === "event") event.name = value;
      else if (field === "id") event.id = value;
    }
    return found;
  };
}

// Asks again and again while the page is looked at, until `end()`; calling what it returns asks at once. What takes the
// daemon long is asked for less often.
export function poll(work, milliseconds) {
  let timer = 0;
  let busy = false;
  let due = false;
  let ended = false;
  const turn = async () => {
    clearTimeout(timer);
    if (busy) {
      due = true;
      return;
    }
    busy = true;
    const began = performance.now();
    try {
      if (visible()) await work();
    } catch {
      // the header says that the daemon is not reached; the next turn tries again
    } finally {
      busy = false;
      if (!ended) timer = setTimeout(turn, due ? 0 : Math.max(milliseconds, 10 * (performance.now() - began)));
      due = false;
    }
  };
  const seen = () => visible() && turn();
  document.addEventListener("visibilitychange", seen);
  turn.end = () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
  };
  turn();
  return turn;
}
