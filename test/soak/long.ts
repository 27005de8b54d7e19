/**
 * `make soak`: a whole Berth under mixed load for an hour, while engines and the operator are killed. Prints memory,
 * descriptors, files and the delay of the event loop; ends with 1 where an answer was wrong, none came
 * for long, or one of them went on growing.
 */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { errorMessage } from "../../src/lib/error-code.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { readRecords } from "../../src/runtimes/process/records.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { growth, type Figures } from "./growth.ts";

const seconds = Number(process.env["BERTH_SOAK_SECONDS"] ?? 3600);
if (!(seconds >= 30)) throw new Error("BERTH_SOAK_SECONDS must be a number of at least 30");
const clients = 16;
const rows = 20;
/** Rows in a row without an answer: a killed engine that requests wait for is back in less than 15 s. */
const mostUnansweredRows = Math.ceil(15 / (seconds / rows));
const isShort = seconds < 120;
/** In a short run, what V8 takes before it first collects its old objects would look like growth on a fast machine. */
const betweenMs = isShort ? 60 : 0;
/** Not more often: the operator waits longer after each crash of an engine, and would start none in the end. */
const faultEveryMs = Math.max(20_000, (seconds * 1000) / (isShort ? 2.5 : 60));
const engine = JSON.stringify([
  process.execPath,
  "--disable-warning=ExperimentalWarning",
  fileURLToPath(new URL("../doubles/engine.ts", import.meta.url)),
  ..."--port $(PORT) --tokens 8 --token-ms 5".split(" "),
]);

/** What clients ask for, and the statuses that are right also beside a fault; `leaves`: the client does not wait. */
const kinds = [
  { model: "steady", stream: false, statuses: [200, 502, 503, 504] },
  { model: "steady", stream: true, statuses: [200, 502, 503, 504] },
  { model: "steady", stream: true, statuses: [200, 502, 503, 504], leaves: true },
  { model: "left", stream: true, statuses: [200, 502, 503, 504] },
  { model: "right", stream: false, statuses: [200, 502, 503, 504] },
  { model: "nobody", stream: false, statuses: [404] },
] as const;

const counts = new Map<number | string, number>();
const wrong: string[] = [];

async function ask(url: string, { model, stream, statuses, ...kind }: (typeof kinds)[number]): Promise<void> {
  const left = new AbortController();
  const count = (outcome: number | string): void => void counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  try {
    const response = await fetch(new URL("/v1/chat/completions", url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, stream, messages: [{ role: "user", content: "hi" }] }),
      signal: left.signal,
    });
    count(response.status);
    const allowed: readonly number[] = statuses;
    if (!allowed.includes(response.status)) wrong.push(`${model}: ${response.status} ${await response.text()}`);
    else if ("leaves" in kind) left.abort();
    else await response.text();
  } catch (error) {
    if (!left.signal.aborted) wrong.push(`${model}: ${errorMessage(error)}`);
  }
}

/** Kills one engine, or the operator. */
async function fault(berth: RunningBerth, nth: number): Promise<string> {
  if (nth % 3 === 2) {
    const pid = await operatorOf(berth);
    if (pid !== undefined) process.kill(pid, "SIGKILL");
    return "operator killed";
  }
  const alive = (await readRecords(join(berth.stateDir, "processes"))).flatMap(({ record }) =>
    record !== undefined && startTimeOf(record.pid) === record.startTime ? [record] : [],
  );
  const chosen = alive[nth % Math.max(1, alive.length)];
  if (chosen === undefined) return "no engine to kill";
  process.kill(chosen.pid, "SIGKILL");
  return `engine of ${chosen.slot} killed`;
}

/** Undefined while `berth up` starts another. */
async function operatorOf({ child }: RunningBerth): Promise<number | undefined> {
  const children = await readFile(`/proc/${child.pid}/task/${child.pid}/children`, "utf8");
  for (const pid of children.trim().split(" ")) {
    const words = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (words.split("\0").includes("operator")) return Number(pid);
  }
  return undefined;
}

/** What the machine itself delays a process; this one has little to do. */
const ownDelay = monitorEventLoopDelay({ resolution: 10 });
ownDelay.enable();

/** Rejects while the operator was killed just now, and another starts. */
async function look(berth: RunningBerth): Promise<Figures> {
  const pageOf = async (url: string): Promise<string> => {
    const page = await fetch(new URL("/metrics", url), { signal: AbortSignal.timeout(10_000) });
    return await page.text();
  };
  const [gateway, operator] = await Promise.all([pageOf(berth.url), pageOf(berth.operatorUrl)]);
  const value = (page: string, name: string): number =>
    Number(new RegExp(`^${name} (\\S+)$`, "m").exec(page)?.[1] ?? Number.NaN);
  const ownLagMs = ownDelay.max / 1e6;
  ownDelay.reset();
  return {
    gatewayMiB: value(gateway, "process_resident_memory_bytes") / 2 ** 20,
    operatorMiB: value(operator, "process_resident_memory_bytes") / 2 ** 20,
    descriptors: value(gateway, "process_open_fds"),
    files: (await readdir(berth.stateDir, { recursive: true })).length,
    lagMs: Math.max(0, value(gateway, "nodejs_eventloop_lag_max_seconds") * 1000 - ownLagMs),
  };
}

const slot = (load: string, group: string): string =>
  `engine = "custom"\nload = "${load}"\n${group}command = ${engine}\ncapabilities = ["chat"]\n[model]\ndefault = "fixed"\n`;
await using berth = await startBerth({
  env: { SVC_LOG_LEVEL: "error", SVC_HOLD_SECONDS: "60" },
  prepare: async ({ configDir }) => {
    await writeFile(join(configDir, "slots/steady.toml"), slot("always", ""));
    for (const name of ["left", "right"]) await writeFile(join(configDir, `slots/${name}.toml`), slot("onDemand", ""));
  },
});
await berth.state("steady", "ready");
const endsAt = performance.now() + seconds * 1000;
let next = 0;
const load = Promise.all(
  Array.from({ length: clients }, async () => {
    while (performance.now() < endsAt) {
      const kind = kinds[(next += 1) % kinds.length];
      if (kind !== undefined) await ask(berth.url, kind);
      if (betweenMs > 0) await new Promise((resolve) => setTimeout(resolve, betweenMs));
    }
  }),
);
let faults = 0;
const faulting = setInterval(
  () =>
    void fault(berth, (faults += 1)).then(
      (what) => console.log(`      ${what}`),
      (error: unknown) => console.log(`      no fault: ${errorMessage(error)}`),
    ),
  faultEveryMs,
);
const figures: Figures[] = [];
const problems: string[] = [];
let answered = 0;
let unansweredRows = 0;
console.log(" time  gateway MiB  operator MiB  descriptors  files  lag ms  answers");
for (let row = 1; row <= rows; row += 1) {
  const at = endsAt - seconds * 1000 * (1 - row / rows);
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, at - performance.now())));
  const seen = await until("both pages answer", () => look(berth)).catch((error: unknown) => {
    console.log(`the end of Berth's log:\n${berth.log().slice(-4000)}`);
    throw error;
  });
  figures.push(seen);
  const { gatewayMiB, operatorMiB, descriptors, files, lagMs } = seen;
  const cells = [gatewayMiB, operatorMiB, descriptors, files, lagMs].map((each) => each.toFixed(0).padStart(9));
  const answers = [...counts].map(([status, count]) => `${status}: ${count}`).join(", ");
  unansweredRows = counts.get(200) === answered ? unansweredRows + 1 : 0;
  if (unansweredRows >= mostUnansweredRows)
    problems.push(`no request was answered in the ${unansweredRows} rows up to row ${row}`);
  answered = counts.get(200) ?? 0;
  console.log(`${((seconds * row) / rows).toFixed(0).padStart(5)} ${cells.join(" ")}  ${answers}`);
}
clearInterval(faulting);
await load;
problems.push(...growth(figures), ...wrong.slice(0, 10));
if (wrong.length > 10) problems.push(`and ${wrong.length - 10} more`);
console.log(problems.length === 0 ? `nothing grew, no answer was wrong; ${faults} faults` : problems.join("\n"));
if (problems.length > 0) process.exitCode = 1;
