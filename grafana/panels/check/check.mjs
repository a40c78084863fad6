#!/usr/bin/env node
/**
 * Holds dashboards against Grafana's own types: `node check.mjs DASHBOARD.json ...`.
 *
 * JSON is TypeScript too: each file is compiled as `{...} satisfies DashboardFile`. One line for each fault goes to
 * stdout, with the line of the JSON file. Exits with 1 if there is a fault, with 2 if the check itself cannot run.
 */

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const COMPILER = join(HERE, "node_modules", "typescript", "bin", "tsc");
const OPTIONS = {
  strict: true,
  noEmit: true,
  // the types of the library itself are not what is checked
  skipLibCheck: true,
  module: "esnext",
  moduleResolution: "bundler",
  allowImportingTsExtensions: true,
  target: "es2022",
  types: [],
};

/** What is wrong in the text of a file before it can be compiled, or undefined. */
function unreadable(text) {
  try {
    const whole = JSON.parse(text);
    return whole !== null && typeof whole === "object" && !Array.isArray(whole) ? undefined : "not a JSON object";
  } catch (error) {
    return `not JSON: ${error.message}`;
  }
}

/** The title of the panel that a line is in, as the file is laid out (two spaces for each level), or undefined. */
function panelAt(lines, number) {
  const start = lines.indexOf('  "panels": [');
  const first = lines.lastIndexOf("    {", number - 1);
  if (start < 0 || first < start) return undefined;
  const title = lines.slice(first).find((line) => /^ {6}"title": |^ {4}\}/.test(line));
  return title?.match(/^ {6}"title": ("(?:[^"\\]|\\.)*")/)?.[1];
}

/** The compiler's findings as `{file, line, column, text}`; what belongs to one finding is in one text. */
function findings(output) {
  const found = [];
  for (const line of output.split("\n")) {
    const start = line.match(/^(.+?)\((\d+),(\d+)\): error TS\d+: (.*)$/);
    if (start) found.push({ file: start[1], line: Number(start[2]), column: Number(start[3]), text: start[4] });
    else if (line.startsWith("  ") && found.length) found.at(-1).text += `\n${line}`;
    else if (line.trim()) throw new Error(line);
  }
  return found;
}

/** Compiles the texts by their names in a folder, and returns what the compiler says of them. */
function compile(folder, texts) {
  const types = JSON.stringify(join(HERE, "dashboard.ts"));
  texts.forEach((text, place) => {
    // on the line of the first brace, so that lines are the same as in the file
    const head = `import type { DashboardFile } from ${types}; export default `;
    writeFileSync(join(folder, `${place}.ts`), `${head}${text.trimEnd()} satisfies DashboardFile;\n`);
  });
  const files = texts.map((_, place) => `${place}.ts`);
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: OPTIONS, files }));
  const ran = spawnSync(process.execPath, [COMPILER, "--pretty", "false", "--project", folder], {
    cwd: folder,
    encoding: "utf8",
  });
  if (ran.error) throw ran.error;
  if (ran.status !== 0 && !ran.stdout.trim()) throw new Error(ran.stderr.trim() || `the compiler ended with ${ran.status}`);
  return findings(ran.stdout);
}

/** Faults of the files, each as a line to print. */
function faults(paths) {
  const said = [];
  const read = [];
  for (const path of paths) {
    const text = readFileSync(path, "utf8");
    const wrong = unreadable(text);
    if (wrong) said.push(`${path}: ${wrong}`);
    else read.push({ path, text });
  }
  if (!read.length) return said;
  const folder = mkdtempSync(join(tmpdir(), "dashboards-"));
  try {
    for (const finding of compile(folder, read.map((one) => one.text))) {
      const one = read[Number(finding.file.match(/(\d+)\.ts$/)?.[1] ?? -1)];
      if (!one) throw new Error(`${finding.file}: ${finding.text}`);
      const lines = one.text.split("\n");
      const panel = panelAt(lines, finding.line);
      const where = `${one.path}:${finding.line}${panel === undefined ? "" : ` (panel ${panel})`}`;
      said.push(`${where}: ${finding.text}\n    ${lines[finding.line - 1].trim()}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return said;
}

function main(paths) {
  if (!paths.length) {
    console.error("check: name the dashboards to check, for example ../../dashboards/*.json");
    return 2;
  }
  if (!existsSync(COMPILER)) {
    console.error(`check: the compiler is missing; run 'npm install' in ${relative(process.cwd(), HERE) || "."} first`);
    return 2;
  }
  try {
    const said = faults(paths);
    for (const one of said) console.log(one);
    const number = paths.length === 1 ? "1 dashboard" : `${paths.length} dashboards`;
    if (!said.length) console.log(`${number} checked: all as Grafana has them`);
    return said.length ? 1 : 0;
  } catch (error) {
    console.error(`check: ${error.message}`);
    return 2;
  }
}

process.exitCode = main(process.argv.slice(2));
