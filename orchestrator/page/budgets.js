// Tenants' budgets, and tools at work.

import { cellBar, link, row, table, text } from "./dom.js";
import { amountOf, count, level, percent, span } from "./words.js";

const BUDGETS = [["tenant", "th"], ["period", ""], ["amount", ""], ["used", ""], ["allowed", "n"], ["anew", "n"]];
const TOOLS = [["tool", "th"], ["running", "n"], ["longest", "n"], ["run", ""]];
const periods = { day: "this day", month: "this month", total: "in all" };

export function showBudgets(queue) {
  table("budgets", queue.budgets ?? [], (one) => `${one.tenant} ${one.period} ${one.amount}`, () => row(BUDGETS), (line, one) => {
    const cell = line.cells_;
    const part = (amount) => (one.allowed > 0 ? amount / one.allowed : 1);
    text(cell.tenant, one.tenant);
    text(cell.period, periods[one.period] ?? one.period);
    text(cell.amount, one.amount);
    const held = one.reserved > 0 ? `, ${amountOf(one.amount, one.reserved)} reserved` : "";
    cellBar(cell.used, [["used", part(one.used)], ["others", part(one.reserved)]], `${percent(part(one.used))} (${amountOf(one.amount, one.used)}${held})`, { level: level(part(one.used + one.reserved)) });
    text(cell.allowed, amountOf(one.amount, one.allowed));
    text(cell.anew, span(one.resets_in));
  });
  table("tools", queue.tools ?? [], (one) => one.tool, () => row(TOOLS), (line, one) => {
    const cell = line.cells_;
    text(cell.tool, one.tool);
    text(cell.running, count(one.running));
    text(cell.longest, span(one.longest));
    link(cell.run, `#run=${encodeURIComponent(one.run)}`, one.run);
  });
}
