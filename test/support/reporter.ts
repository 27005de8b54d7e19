import { relative } from "node:path";
import { Readable } from "node:stream";
import type { EventData } from "node:test";
import { spec as Spec, type TestEvent } from "node:test/reporters";

/** Lines of a message that are shown: what was expected stands at its beginning. */
const shownLines = 15;
/** A file may never end where a test or a hook has failed: after this time without an event the run is ended. */
const stallMs = Number(process.env["BERTH_TEST_STALL_MS"] ?? 300_000);

/**
 * The reporter of `make test`: Node's own, and in its last lines each failed test once more, by place, name and message
 * alone, for a reader who sees only the end of a long log. A run that stands still after a failure is ended.
 */
export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const failures: string[] = [];
  let stall: NodeJS.Timeout | undefined;
  const watched = async function* (): AsyncGenerator<TestEvent> {
    for await (const event of events) {
      if (event.type === "test:fail") stall ??= setTimeout(() => endRun(failures), stallMs).unref();
      stall?.refresh();
      // A parent fails with its subtests, which say why.
      if (event.type === "test:fail" && !/^\d+ subtests? failed$/.test(event.data.details.error.message))
        failures.push(shown(event.data));
      yield event;
    }
  };
  for await (const text of Readable.from(watched()).compose(new Spec())) yield String(text);
  if (failures.length > 0) yield `\n${failures.join("\n")}\n`;
}

/** Node names the files that are still running, and ends them. */
function endRun(failures: readonly string[]): void {
  process.stdout.write(`\n${failures.join("\n")}\nnothing was reported for ${stallMs / 1000} s after a failure\n`);
  process.exitCode = 1;
  process.kill(process.pid, "SIGTERM");
}

function shown({ name, file = "", line = 0, details: { error } }: EventData.TestFail): string {
  const reasons: string[] = [];
  // Node wraps what was thrown, under the same message.
  for (let each: unknown = error; each instanceof Error; each = each.cause)
    if (each.message !== reasons.at(-1)) reasons.push(each.message);
  const lines = reasons.join("\ncaused by: ").trimEnd().split("\n");
  const place = `${relative(process.cwd(), file)}:${line}`;
  return [`failed: ${place} ${name}`, ...lines.slice(0, shownLines).map((each) => `  ${each}`)].join("\n");
}
