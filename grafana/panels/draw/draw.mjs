// Draws a dashboard with Grafana's own components, from the same queries put to a real Prometheus.
//
//   node draw.mjs DASHBOARD.json --prometheus URL --out FILE.png [--minutes 30] [--to EPOCH] [--panel ID] [--rows N]
//                 [--dark] [--width 1400] [--chromium PATH]
//
// TimeSeries, BigValue, BarGauge, PanelChrome and the theme are those of @grafana/ui; tables are drawn by hand. Where
// --panel is given, only that panel is drawn; with --rows only what begins in so many rows of the grid. Exit code 1 where Prometheus does not answer, 2 for wrong usage.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build } from "esbuild";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const { values: given, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    prometheus: { type: "string" }, out: { type: "string" }, minutes: { type: "string", default: "30" },
    panel: { type: "string" }, dark: { type: "boolean", default: false }, width: { type: "string", default: "1400" },
    chromium: { type: "string", default: "/usr/bin/chromium" }, rows: { type: "string" }, to: { type: "string" },
  },
});
if (positionals.length !== 1 || !given.prometheus || !given.out) {
  console.error("draw: usage: node draw.mjs DASHBOARD.json --prometheus URL --out FILE.png [--minutes 30] [--panel ID]");
  process.exit(2);
}

const to = given.to ? Number(given.to) : Math.floor(Date.now() / 1000);
const from = to - 60 * Number(given.minutes);
const step = Math.max(5, Math.round((to - from) / 240));

// Variables as Grafana fills them where all is chosen, and its own intervals.
const filled = (expr) => expr
  .replaceAll("$__rate_interval", `${Math.max(4 * 15, step + 15)}s`)
  .replaceAll("$__interval", `${step}s`)
  .replaceAll("$__range", `${to - from}s`)
  .replaceAll(/\$\{?(instance|backend|tenant)(:\w+)?\}?/g, ".*");

async function ask(path, query) {
  const answer = await fetch(`${given.prometheus}/api/v1/${path}?${new URLSearchParams(query)}`);
  const body = await answer.json();
  if (body.status !== "success") throw new Error(`Prometheus: ${body.error} (${query.query})`);
  return body.data.result;
}

const legend = (target, labels) => {
  const format = target.legendFormat;
  if (!format || format === "__auto") return Object.entries(labels).filter(([name]) => !["__name__", "instance", "job"].includes(name)).map(([, value]) => value).join(" ") || labels.__name__ || "value";
  return format.replaceAll(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? "");
};

async function filledPanel(panel) {
  const data = [];
  const rows = [];
  for (const target of panel.targets ?? []) {
    const query = filled(target.expr);
    if (panel.type === "table") {
      // merged by labels, as the transformation does it
      for (const one of await ask("query", { query, time: to })) {
        const same = rows.find((row) => JSON.stringify(row.metric) === JSON.stringify(one.metric));
        const row = same ?? { metric: one.metric, values: {} };
        if (!same) rows.push(row);
        row.values[panel.targets.length > 1 ? `Value #${target.refId}` : "Value"] = String(Number(Number(one.value[1]).toFixed(1)));
      }
      continue;
    }
    if (target.instant && !target.range) {
      for (const one of await ask("query", { query, time: to })) {
        data.push({ name: legend(target, one.metric), labels: one.metric, times: [to * 1000], values: [Number(one.value[1])] });
      }
      continue;
    }
    for (const one of await ask("query_range", { query, start: from, end: to, step })) {
      data.push({
        name: legend(target, one.metric), labels: one.metric,
        times: one.values.map(([time]) => time * 1000), values: one.values.map(([, value]) => (Number.isFinite(Number(value)) ? Number(value) : null)),
      });
    }
  }
  const organize = (panel.transformations ?? []).find((one) => one.id === "organize")?.options ?? {};
  const hidden = Object.keys(organize.excludeByName ?? {});
  return { ...panel, data, rows: rows.map((row) => ({ ...row.metric, ...row.values })), hidden, renamed: organize.renameByName ?? {}, options: panel.options ?? {}, fieldConfig: panel.fieldConfig ?? { defaults: {} } };
}

try {
  const dashboard = JSON.parse(readFileSync(positionals[0], "utf8"));
  let panels = dashboard.panels.filter((panel) => !given.panel || panel.id === Number(given.panel));
  if (given.rows) panels = panels.filter((panel) => panel.gridPos.y < Number(given.rows));
  if (given.panel) panels = panels.map((panel) => ({ ...panel, gridPos: { ...panel.gridPos, x: 0, y: 0, w: 24 } }));
  const drawn = await Promise.all(panels.map(filledPanel));
  const bundle = await build({
    entryPoints: [join(here, "page.jsx")], bundle: true, write: false, format: "iife", jsx: "automatic",
    loader: { ".svg": "dataurl", ".css": "empty", ".woff2": "dataurl", ".png": "dataurl" }, logLevel: "error",
    define: { "process.env.NODE_ENV": '"production"', global: "window" },
  });
  const browser = await chromium.launch({ executablePath: given.chromium, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync"] });
  const page = await browser.newPage({ viewport: { width: Number(given.width), height: 900 } });
  page.on("pageerror", (error) => console.error(`page: ${error.message}`));
  const facts = { panels: drawn, theme: given.dark ? "dark" : "light", width: Number(given.width), from, to };
  // a page without an origin has no storage, which Grafana's components look into
  const html = '<!doctype html><html><body><div id="root"></div></body></html>';
  await page.route("http://panels.invalid/**", (route) => route.fulfill({ contentType: "text/html", body: html }));
  await page.goto("http://panels.invalid/");
  await page.evaluate((value) => { window.HEADRACE = value; window.grafanaBootData = { settings: {}, user: {} }; }, facts);
  await page.addStyleTag({ content: readFileSync(join(here, "node_modules/uplot/dist/uPlot.min.css"), "utf8") });
  await page.addScriptTag({ content: bundle.outputFiles[0].text });
  await page.waitForSelector("#dashboard");
  await page.waitForTimeout(2500);
  await page.locator("#dashboard").screenshot({ path: given.out });
  await browser.close();
  console.log(`${drawn.filter((panel) => panel.type !== "row").length} panels drawn into ${given.out}`);
} catch (error) {
  console.error(`draw: ${error.message}`);
  process.exit(1);
}
