// Times, amounts and reasons in words.

export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "-";
  const whole = Math.round(Math.max(0, seconds));
  if (seconds > 0 && seconds < 9.95) return `${Math.max(seconds, 0.1).toFixed(1)} s`;
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export const waited = (seconds) => (seconds > 0 ? span(seconds) : "-");

const exact = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const rough = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => exact.format(number);
export const few = (number) => (Math.abs(number) < 10000 ? exact.format(number) : rough.format(number));
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

export function percent(part) {
  if (part > 0 && part < 0.005) return "<1 %";
  return `${Math.round(part * 100)} %`;
}

export function dollars(micro) {
  if (micro === null || micro === undefined) return "-";
  return money(micro / 1e6);
}

export const money = (amount) => (amount !== 0 && amount < 0.1 ? `$${amount.toFixed(4)}` : `$${amount.toFixed(2)}`);

export function clock(at) {
  return at ? new Date(at * 1000).toLocaleTimeString("en-GB") : "-";
}

export function moment(at) {
  return at ? new Date(at * 1000).toLocaleString("en-GB") : "-";
}

export function amountOf(unit, value) {
  if (unit === "dollars") return money(value);
  if (unit === "micro_dollars") return money(value / 1e6);
  if (unit === "timeout") return span(value);
  return few(value);
}

export const limitNames = { rounds: "rounds", tool_calls: "tool calls", tokens: "tokens", micro_dollars: "cost", timeout: "time" };

// What holds a call, in words; the reason as the daemon names it stays readable in it.
export function holds(by) {
  if (!by) return "-";
  if (by === "fair_order") return "fair order: others go first";
  if (by === "retry") return "a pause before its next try";
  if (by === "tenant_limit") return "a limit of its tenant";
  if (by.startsWith("tenant ")) return `its tenant's own limit ${by.slice(7)}`;
  if (by.includes("/")) return `limit ${by}`;
  if (by === "calls in flight") return "the backend's places, which are all taken (calls in flight)";
  if (by === "breaker") return "endpoints that are closed off (breaker)";
  if (by === "retry-after") return "a pause that the provider asked for (retry-after)";
  if (by === "headroom") return "room that is kept for more urgent calls (headroom)";
  if (by === "approval") return "people to approve";
  if (by === "input") return "people to answer";
  return by;
}

const breakers = { closed: ["good", "✓", "takes calls"], open: ["bad", "✗", "closed off"], half_open: ["warn", "?", "is being tried"] };
export const breaker = (state) => breakers[state] ?? ["warn", "?", state];

const states = {
  created: ["idle", "○", "created"],
  queued: ["idle", "○", "queued"],
  running: ["live", "▸", "running"],
  waiting_model: ["live", "▸", "waits for the model"],
  waiting_tool: ["live", "▸", "waits for a tool"],
  waiting_approval: ["warn", "!", "waits for an approval"],
  waiting_input: ["warn", "!", "waits for an answer"],
  waiting_children: ["live", "▸", "waits for its children"],
  cancelling: ["warn", "■", "being cancelled"],
  completed: ["good", "✓", "completed"],
  stopped: ["warn", "■", "stopped"],
  failed: ["bad", "✗", "failed"],
  cancelled: ["idle", "■", "cancelled"],
  expired: ["warn", "■", "expired"],
};
export const runState = (state) => states[state] ?? ["idle", "○", state];

const phases = {
  running: ["live", "▸", "running"],
  stopping: ["warn", "■", "stopping"],
  done: ["good", "✓", "done"],
  failed: ["bad", "✗", "failed"],
  stopped: ["warn", "■", "stopped"],
  cancelled: ["idle", "■", "cancelled"],
  interrupted: ["warn", "!", "interrupted"],
};
export const jobPhase = (phase) => phases[phase] ?? ["idle", "○", phase];

// Characters that change how text around them looks or that cannot be seen: shown as what they are.
export function plain(words) {
  return String(words).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// JSON laid out, where that changes nothing but the layout; otherwise the very text.
export function laidOut(raw) {
  try {
    const value = JSON.parse(raw);
    const same = JSON.stringify(value) === raw.replace(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");
    return plain(same ? JSON.stringify(value, null, 2) : raw);
  } catch {
    return plain(raw);
  }
}

export const level = (part) => (part >= 1 ? "full" : part >= 0.9 ? "high" : "");
