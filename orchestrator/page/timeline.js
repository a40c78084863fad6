// What each event of a run's log says, in words: a line, what more there is to read, and how it looks.

import { dollars, few, holds, laidOut, limitNames, plain, plural, span } from "./words.js";

const line = (kind, what, body = "") => ({ kind, what, body });

const tokens = (usage) => few((usage?.input ?? 0) + (usage?.cached ?? 0) + (usage?.cache_write ?? 0) + (usage?.output ?? 0));

const outcomes = { ok: "good", error: "bad", timeout: "bad", cancelled: "idle", unknown_effect: "warn" };

const events = {
  run_created: (e) => line("idle", `Created for agent ${e.agent || e.model}${e.parent ? `, by run ${e.parent}` : ""}`, transcript(e.messages)),
  run_started: () => line("idle", "Begun"),
  run_resumed: () => line("warn", "Taken up again by another executor"),
  model_requested: (e) => line("live", `${e.purpose === "compact" ? "Asks for a summary" : `Step ${e.step}: asks the model`}${e.attempt > 1 ? `, attempt ${e.attempt}` : ""}`),
  model_replied: (e) => line("good", `Step ${e.step}: the model answered with ${tokens(e.reply.usage)} tokens${e.micro_dollars ? `, ${dollars(e.micro_dollars)}` : ""}${calls(e.reply)}`, reply(e.reply)),
  model_failed: (e) => line("bad", `Step ${e.step}: the call failed: ${e.kind}: ${plain(e.message)}`, e.partial ? plain(e.partial) : ""),
  compacted: (e) => line("idle", `A summary stands for ${plural(e.messages, "message")} now`, plain(e.summary)),
  tool_refused: (e) => line("bad", `Tool ${e.name} was not run: ${e.outcome}`, plain(e.content)),
  tool_started: (e) => line("live", `Tool ${e.name} begins`),
  tool_finished: (e) => line(outcomes[e.outcome] ?? "warn", `Tool ${e.name} ended: ${e.outcome}`, plain(e.content)),
  tool_late: (e) => line("warn", `Tool ${e.name}, long abandoned, ended after all: ${e.outcome}`, plain(e.content)),
  approval_requested: (e) => line("warn", `People are asked to approve ${e.name}`, laidOut(e.arguments)),
  approval_decided: (e) => line(e.decision === "approved" ? "good" : "warn", `${e.decision} by ${plain(e.by)}`, plain(e.note)),
  input_requested: (e) => line("warn", `People are asked: ${plain(e.question)}`, plain(e.options.join("\n"))),
  input_given: (e) => line("good", `Answered by ${plain(e.by)}`, plain(e.content)),
  run_waiting: (e) => line("warn", `Waits for nothing but ${e.reasons.map(holds).join(" and ")}`),
  child_started: (e) => ({ ...line("live", "Gave a part of the work to run"), run: e.child }),
  cancel_requested: (e) => line("warn", `Taken away by ${e.source} (${e.reason})`),
  message_added: (e) => line("idle", "Somebody said something to it", plain(e.content)),
  budget_granted: (e) => line("idle", `Given other limits: ${granted(e.limits)}`),
  run_ended: (e) => line(e.state === "completed" ? "good" : "bad", `Ended: ${e.state}, ${e.reason}${e.limit ? ` (${limitNames[e.limit] ?? e.limit} of ${e.scope || "the run"})` : ""}`, plain(e.message || e.answer || e.partial)),
};

export function describe(event) {
  return events[event.type]?.(event) ?? line("idle", event.type);
}

function granted(limits) {
  return Object.entries(limits)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${limitNames[name] ?? name} ${name === "timeout" ? span(value) : few(value)}`)
    .join(", ");
}

function calls(said) {
  const names = (said.message.tool_calls ?? []).map((call) => call.name);
  return names.length ? `, and wants ${names.join(", ")}` : "";
}

function reply(said) {
  const parts = [];
  if (said.message.reasoning) parts.push(`(thinking) ${plain(said.message.reasoning)}`);
  if (said.message.content) parts.push(plain(said.message.content));
  for (const call of said.message.tool_calls ?? []) parts.push(`${call.name} ${laidOut(call.arguments)}`);
  return parts.join("\n\n");
}

function transcript(messages) {
  return messages.map((message) => `${message.role}: ${plain(message.content ?? "")}`).join("\n\n");
}
