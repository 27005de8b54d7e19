import { basename, relative } from "node:path";
import { Readable } from "node:stream";
import type { EventData } from "node:test";
import { spec as Spec, type TestEvent } from "node:test/reporters";

/** Lines of a message that are shown: what was expected stands at its beginning. */
const shownLines = 15;
/** Slowest files and slowest tests that are shown. */
const shownSlowest = 10;
/** A file may never end where a test or a hook has failed: after this time without an event the run is ended. */
const stallMs = Number(process.env["BERTH_TEST_STALL_MS"] ?? 300_000);
/** The same without a failure: longer than any test takes. A handle that a file leaves open keeps its process. */
const silenceMs = 1_500_000;

interface Timed {
  readonly name: string;
  readonly ms: number;
}

/**
 * The reporter of every target: Node's own, and at the end the slowest files and tests, and each failed test once more, by
 * place, name and message alone, for a reader who sees only the end of a long log. A run that stands still is ended, and a
 * file that has ended before its tests is a failure.
 */
export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const failures: string[] = [];
  const files = new Map<string, number>();
  const tests: Timed[] = [];
  let stall: NodeJS.Timeout | undefined;
  let hasFailed = false;
  const watched = async function* (): AsyncGenerator<TestEvent> {
    for await (const event of events) {
      hasFailed ||= event.type === "test:fail";
      const limitMs = hasFailed ? stallMs : silenceMs;
      clearTimeout(stall);
      stall = setTimeout(() => endRun(failures, limitMs), limitMs).unref();
      if (event.type === "test:fail" || event.type === "test:pass") {
        const { name, nesting, details } = event.data;
        const ms = details.duration_ms;
        if (details.type !== "suite") tests.push({ name: `${placeOf(event.data)} ${name}`, ms });
        const file = relative(process.cwd(), event.data.file ?? "");
        if (nesting === 0) files.set(file, (files.get(file) ?? 0) + ms);
      }
      // A parent fails with its subtests, which say why.
      if (event.type === "test:fail" && !/^\d+ subtests? failed$/.test(event.data.details.error.message))
        failures.push(shown(event.data));
      if (event.type === "test:pass" && hasNoTest(event.data)) {
        failures.push(`failed: ${event.data.name} has ended before its tests`);
        process.exitCode = 1;
      }
      yield event;
    }
  };
  for await (const text of Readable.from(watched()).compose(new Spec())) yield String(text);
  yield `\nslowest files, by the time of their tests:\n${slowest([...files].map(([name, ms]) => ({ name, ms })))}`;
  yield `slowest tests:\n${slowest(tests)}`;
  if (failures.length > 0) yield `\n${failures.join("\n")}\n`;
}

/** Node reports a file as a test of its own where its process gave no other result: it had none, or it left early. */
function hasNoTest({ name, file = "", nesting }: EventData.TestPass): boolean {
  return nesting === 0 && basename(name) === basename(file);
}

function slowest(all: readonly Timed[]): string {
  const shownOnes = all.toSorted((a, b) => b.ms - a.ms).slice(0, shownSlowest);
  return shownOnes.map(({ name, ms }) => `${(ms / 1000).toFixed(1).padStart(7)} s  ${name}\n`).join("");
}

/** Node names the files that are still running, and ends them. */
function endRun(failures: readonly string[], limitMs: number): void {
  process.stdout.write(`\n${failures.join("\n")}\nnothing was reported for ${limitMs / 1000} s\n`);
  process.exitCode = 1;
  process.kill(process.pid, "SIGTERM");
}

function placeOf({ file = "", line = 0 }: EventData.TestPass): string {
  return `${relative(process.cwd(), file)}:${line}`;
}

function shown(data: EventData.TestFail): string {
  const reasons: string[] = [];
  // Node wraps what was thrown, under the same message.
  for (let each: unknown = data.details.error; each instanceof Error; each = each.cause)
    if (each.message !== reasons.at(-1)) reasons.push(each.message);
  const lines = reasons.join("\ncaused by: ").trimEnd().split("\n");
  return [`failed: ${placeOf(data)} ${data.name}`, ...lines.slice(0, shownLines).map((each) => `  ${each}`)].join("\n");
}
