/**
 * Lists the files of `src/` that execute for an edit that restarts one slot, from the edit until the slot is ready again, and
 * while that slot rests, by V8's coverage of an operator in this process:
 *
 *   node_modules/.bin/node test/bench/edit-path.ts
 *
 * Each file has the number of its functions that ran. At rest: the worst of four windows of four seconds.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { Session } from "node:inspector/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import pino from "pino";
import { runOperator } from "../../src/operator/main.ts";
import { hardwareProbe, holdingsHere } from "../../src/program/hardware.ts";
import { readSettings } from "../../src/program/settings.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const source = fileURLToPath(new URL("../../src/", import.meta.url));
const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const windows = 4;
const windowMs = 4000;

type Ran = ReadonlyMap<string, number>;

const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

await using directory = await tempDir();
const [configDir, stateDir] = [join(directory.path, "config"), join(directory.path, "state")];
const manifest = join(configDir, "slots", "mine.toml");
await mkdir(join(configDir, "slots"), { recursive: true, mode: 0o700 });
await mkdir(stateDir, { mode: 0o700 });
await edit("one");
const env = {
  ...process.env,
  SVC_CONFIG_DIR: configDir,
  SVC_STATE_DIR: stateDir,
  SVC_OPERATOR_PORT: "0",
  SVC_RUNTIME: "process",
};
const { config } = await readSettings(env);
const log = pino({ level: "warn" }, { write: (line) => void process.stderr.write(line) });
await using operator = await runOperator(config, {
  log,
  version: "0.0.0",
  isPaused: false,
  signal: new AbortController().signal,
  onActing: () => undefined,
  onLost: () => undefined,
  host: { llamaServer: undefined, embedded: undefined },
  probe: await hardwareProbe(config),
  holdings: await holdingsHere(),
  print: async () => undefined,
  images: {},
  catalog: async () => [],
  env,
});
let [pid] = await engineOf("ready");
for (const round of ["two", "three"]) {
  await session.post("Profiler.takePreciseCoverage");
  await edit(round);
  const [next] = await engineOf("ready", pid);
  const ran = await taken();
  pid = next;
  // The first edit also loads code.
  if (round === "three") show("an edit that restarts one slot", ran);
}
const rests: Ran[] = [];
for (let window = 0; window < windows; window++) {
  await session.post("Profiler.takePreciseCoverage");
  await delay(windowMs);
  rests.push(await taken());
}
const worst = rests.toSorted((one, other) => other.size - one.size)[0];
if (worst !== undefined) show(`at rest for ${windowMs / 1000} s`, worst);
await operator.stopEngines({ stopSeconds: 3, listTimeoutMs: 1500, signal: new AbortController().signal });

async function edit(mark: string): Promise<void> {
  const command = [process.execPath, engine, "--port", "$(PORT)"];
  const text = `engine = "custom"\ncommand = ${JSON.stringify(command)}\n[model]\ndefault = "double"\n[env]\nMARK = "${mark}"\n`;
  await writeFile(manifest, text, { mode: 0o600 });
}

/** Its process, once the slot has that state with another process than `before`. */
async function engineOf(state: string, before?: number): Promise<readonly [pid: number]> {
  return await until(`the slot is ${state}`, async () => {
    const { status } = JSON.parse(await readFile(join(stateDir, "slots", "mine.json"), "utf8"));
    const found: unknown = status.processes[0]?.pid;
    return status.state === state && typeof found === "number" && found !== before ? ([found] as const) : undefined;
  });
}

async function taken(): Promise<Ran> {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  const ran = new Map<string, number>();
  for (const { url, functions } of result) {
    const path = url.startsWith("file:") ? fileURLToPath(url) : "";
    const count = functions.filter(({ ranges: [whole] }) => (whole?.count ?? 0) > 0).length;
    if (path.startsWith(source) && count > 0) ran.set(path.slice(source.length), count);
  }
  return new Map([...ran].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function show(title: string, ran: Ran): void {
  const functions = [...ran.values()].reduce((sum, count) => sum + count, 0);
  console.log(`${title}: ${ran.size} files, ${functions} functions`);
  for (const [file, count] of ran) console.log(`  ${String(count).padStart(3)}  ${file}`);
}
