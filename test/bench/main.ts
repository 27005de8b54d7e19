/** `make bench`: measures Berth against the bars it has set itself. `--help` says how. */
import { parseArgs } from "node:util";
import type { Bar, Bench, Result } from "./bar.ts";
import { chat } from "./bars/chat.ts";
import { cold } from "./bars/cold.ts";
import { idle } from "./bars/idle.ts";
import { pull } from "./bars/pull.ts";
import { scrape } from "./bars/scrape.ts";
import { streams } from "./bars/streams.ts";
import { telemetry } from "./bars/telemetry.ts";
import { NoiseMeter } from "./machine/cpu.ts";
import { checkOutPinned, type Pinned } from "./machine/pinned.ts";
import { runProgram } from "./machine/process.ts";
import { table, type Measured } from "./table.ts";
import { errorMessage } from "../../src/lib/error-code.ts";

/** Every bar, in the order in which they run. */
const bars: readonly Bar[] = [chat, streams, cold, idle, scrape, telemetry, pull];

/** Others may take this much of the machine before a figure is called noisy, in cores. */
const noiseLimitCores = 0.25;

const { values: flags } = parseArgs({
  options: {
    help: { type: "boolean" },
    bars: { type: "string", default: "" },
    rounds: { type: "string", default: "3" },
    tries: { type: "string", default: "2" },
    against: { type: "string", default: "" },
    strict: { type: "boolean", default: false },
  },
});

if (flags.help === true) {
  console.log(`make bench [BARS=name,name] [AGAINST=commit] [ARGS="--strict --rounds 3 --tries 2"]
  AGAINST     chat and streams also measure this earlier commit of Berth, in turn with the present one
  --rounds N  each side of a comparison runs so often, in turn
  --tries N   a bar during which others took more than ${noiseLimitCores} of a core is measured so often at most
  --strict    exit 1 when a bar is missed

${bars.map(({ name, about }) => `  ${name.padEnd(10)} ${about}`).join("\n")}`);
  process.exit(0);
}

const wanted = flags.bars.split(",").filter((name) => name !== "");
const unknown = wanted.filter((name) => !bars.some((bar) => bar.name === name));
if (unknown.length > 0) {
  console.error(
    `bench: there is no bar called ${unknown.join(", ")}; there are ${bars.map(({ name }) => name).join()}`,
  );
  process.exit(2);
}
for (const [program, flag] of [
  ["nginx", "-v"],
  ["wrk", "-v"],
  ["curl", "-V"],
] as const) {
  // wrk ends with 1 even when it only prints its version.
  const isThere = await runProgram(["sh", "-c", `command -v ${program} && ${program} ${flag} || true`]);
  if (isThere.trim() !== "") continue;
  console.error(`bench: ${program} is missing; run make bench-setup`);
  process.exit(2);
}

let against: Pinned | undefined;
if (flags.against !== "") {
  console.error(`setting up ${flags.against}, unless an earlier run has`);
  try {
    against = await checkOutPinned(flags.against);
  } catch (error) {
    console.error(`bench: ${errorMessage(error)}`);
    process.exit(2);
  }
}
const bench: Bench = {
  rounds: Number(flags.rounds),
  against,
  say: (line) => console.error(`  ${line}`),
};
const measured: Measured[] = [];
for (const bar of bars) {
  if (wanted.length > 0 && !wanted.includes(bar.name)) continue;
  let best: { results: readonly Result[]; noise: number } | undefined;
  for (let attempt = 1; attempt <= Number(flags.tries); attempt++) {
    console.error(`${bar.name}: ${bar.about}`);
    const meter = new NoiseMeter();
    let results: readonly Result[];
    try {
      results = await bar.run(bench);
    } catch (error) {
      const text = errorMessage(error);
      bench.say(text);
      results = [{ bar: bar.name, measured: oneLine(text), target: "runs to its end", isMet: false }];
    }
    const noise = meter.othersCores();
    if (best === undefined || noise < best.noise) best = { results, noise };
    if (noise <= noiseLimitCores) break;
    bench.say(`others took ${noise.toFixed(2)} of a core meanwhile`);
  }
  for (const result of best?.results ?? [])
    measured.push({ ...result, noiseCores: best?.noise ?? 0, isNoisy: (best?.noise ?? 0) > noiseLimitCores });
}
console.log(table(measured));
const missed = measured.filter(({ isMet }) => isMet === false);
if (flags.strict && missed.length > 0) process.exitCode = 1;

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").slice(0, 120);
}
