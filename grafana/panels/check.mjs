// Holds dashboards against Grafana's own schema package: wrong types, unknown keys, words that it does not know.
//
//   node check.mjs [DASHBOARD.json ...]        without names: all of ../dashboards
//
// Each dashboard becomes a TypeScript program that says `satisfies Dashboard`, and of each panel that its options and
// its custom field options are those of its kind. TypeScript then finds what Grafana's types do not allow. Exit code 1
// where it finds anything, 2 where a file cannot be read.

import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const here = dirname(fileURLToPath(import.meta.url));

// The types of what a kind of panel has for itself: its options, and its custom field options.
const KINDS = {
  timeseries: { from: "timeseries", options: "Options", custom: "FieldConfig" },
  stat: { from: "stat", options: "Options" },
  bargauge: { from: "bargauge", options: "Options" },
  gauge: { from: "gauge", options: "Options" },
  table: { from: "table", options: "Options", custom: "FieldConfig" },
  "state-timeline": { from: "statetimeline", options: "Options", custom: "FieldConfig" },
  text: { from: "text", options: "Options" },
};

function program(dashboard) {
  const kinds = new Map();
  const lines = [];
  const panels = dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]);
  for (const panel of panels) {
    if (panel.type === "row") continue;
    const kind = KINDS[panel.type];
    if (kind === undefined) {
      lines.push(`const unknown${panel.id}: never = ${JSON.stringify(`a panel of the unknown kind ${panel.type}`)};`);
      continue;
    }
    kinds.set(kind.from, `import type * as ${kind.from} from "${modulePath(kind.from)}";`);
    lines.push(`(${JSON.stringify(panel.options ?? {})}) satisfies Loose<${kind.from}.${kind.options}>; // ${panel.title}`);
    const custom = panel.fieldConfig?.defaults?.custom;
    if (custom !== undefined && kind.custom) {
      lines.push(`(${JSON.stringify(custom)}) satisfies Loose<${kind.from}.${kind.custom}>; // ${panel.title}`);
    } else if (custom !== undefined) {
      lines.push(`const custom${panel.id}: never = "a ${panel.type} has no custom field options";`);
    }
  }
  return [
    `import type { Dashboard } from "${rawPath("dashboard/x/types.gen")}";`,
    ...kinds.values(),
    // what is not said has its default; enumerations are written as their words
    "type Words<T> = T extends string ? `${T}` : T extends (infer I)[] ? Words<I>[] : T extends object ? { [K in keyof T]?: Words<T[K]> } : T;",
    "type Loose<T> = Words<T>;",
    `(${JSON.stringify(general(dashboard))}) satisfies Loose<Dashboard>;`,
    ...lines,
  ].join("\n");
}

// Without what belongs to the Prometheus plugin, which has no types of its own in the package: the tests run its queries.
function general(dashboard) {
  const list = (dashboard.annotations?.list ?? []).map(({ expr, target, titleFormat, textFormat, tagKeys, step, ...rest }) => rest);
  return { ...dashboard, annotations: { ...dashboard.annotations, list } };
}

const rawPath = (name) => `@schema/raw/${name}`;
const modulePath = (kind) => rawPath(`composable/${kind}/panelcfg/x/types.gen`);

function problems(files) {
  const sources = new Map(files.map((file) => [`/dashboards/${basename(file)}.ts`, program(JSON.parse(readFileSync(file, "utf8")))]));
  const options = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ES2022,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    types: [],
    baseUrl: here,
    paths: { "@schema/*": ["node_modules/@grafana/schema/dist/types/*"] },
  };
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (name) => sources.has(name) || fileExists.call(host, name);
  host.readFile = (name) => sources.get(name) ?? readFile.call(host, name);
  host.getSourceFile = (name, target) =>
    sources.has(name) ? ts.createSourceFile(name, sources.get(name), target) : getSourceFile.call(host, name, target);
  const found = [];
  for (const one of ts.getPreEmitDiagnostics(ts.createProgram([...sources.keys()], options, host))) {
    const words = ts.flattenDiagnosticMessageText(one.messageText, " ").slice(0, 400);
    const line = one.file === undefined ? "" : one.file.text.split("\n")[one.file.getLineAndCharacterOfPosition(one.start).line];
    const panel = /\/\/ (.*)$/.exec(line)?.[1];
    const near = one.file === undefined ? "" : one.file.text.slice(one.start, one.start + 60);
    found.push(`${basename(one.file?.fileName ?? "", ".ts")}${panel ? `, panel "${panel}"` : ""}: ${words} (at ${near})`);
  }
  return found;
}

const named = process.argv.slice(2);
const folder = join(here, "..", "dashboards");
const files = named.length ? named : readdirSync(folder).filter((name) => name.endsWith(".json")).map((name) => join(folder, name));
let found;
try {
  found = problems(files);
} catch (error) {
  console.error(`check: ${error.message}`);
  process.exit(2);
}
for (const one of found) console.log(one);
console.log(`${files.length} dashboards held against @grafana/schema: ${found.length ? `${found.length} problems` : "nothing found"}`);
process.exit(found.length ? 1 : 0);
