import assert from "node:assert/strict";
import { appendFile, mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { LogCopies } from "../../../src/runtimes/docker/log-copy.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { container, daemonOf, label } from "./fixture.ts";

type Line = readonly [stamp: string, line: string];

/** Copies of what a DOUBLE of a daemon says of every container: the lines that the test gives, then the end. */
async function copying(logBytes: number, said: (id: string) => readonly Line[]) {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  await mkdir(join(dir.path, "logs"));
  const { daemon } = stack.use(
    await daemonOf((asked, response) => {
      const id = /\/containers\/(\w+)\/logs$/.exec(asked)?.[1] ?? "";
      response.writeHead(200);
      for (const [stamp, line] of said(id)) response.write(frame(`${stamp} ${line}\n`));
      response.end();
    }),
  );
  const copies = new LogCopies({ daemon, stateDir: dir.path, logBytes });
  stack.defer(() => copies.close());
  const owned = stack.move();
  return {
    /** Copies the log of such a container to its end. */
    copy: async (id: string, state: Parameters<typeof container>[1]) => {
      copies.follow({ ...container(id, state), label });
      await copies.drained(id, 30_000);
    },
    file: join(dir.path, "logs", "primary.main.container.log"),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function frame(text: string): Buffer {
  const head = Buffer.alloc(8);
  head[0] = 1;
  head.writeUInt32BE(Buffer.byteLength(text), 4);
  return Buffer.concat([head, Buffer.from(text)]);
}

it("the log of a slot whose containers say little and come often stays bounded", async () => {
  const logBytes = 4096;
  const line = "x".repeat(1000);
  await using site = await copying(logBytes, (id) => [[`2026-01-01T00:00:${id.slice(1)}Z`, line]]);
  for (let run = 10; run < 25; run++) await site.copy(`c${run}`, { StartedAt: `2026-01-01T00:00:${run}Z` });
  assert.ok((await stat(site.file)).size <= logBytes + 1100);
  assert.match(await readFile(site.file, "utf8"), /00:00:24Z stdout x/);
});

it("output of a container after the clock was set back does not count as old", async () => {
  const now = new Date(Date.now() - 60_000).toISOString();
  await using site = await copying(1_000_000, () => [[now, "said now"]]);
  const ahead = new Date(Date.now() + 3_600_000).toISOString();
  await appendFile(site.file, `${ahead} stdout before the clock was set back\n`);
  await site.copy("c1", { StartedAt: now });
  assert.match(await readFile(site.file, "utf8"), /said now/);
});

it("a container that runs on is followed again where the daemon ended its log, and one that has ended is not", async () => {
  const lines: Line[] = [["2026-01-01T00:00:01Z", "first"]];
  await using site = await copying(1_000_000, () => lines);
  const StartedAt = "2026-01-01T00:00:00Z";
  await site.copy("c1", { StartedAt });
  lines.push(["2026-01-01T00:00:02Z", "second"]);
  await site.copy("c1", { StartedAt });
  const text = "2026-01-01T00:00:01Z stdout first\n2026-01-01T00:00:02Z stdout second\n";
  assert.equal(await readFile(site.file, "utf8"), text);
  lines.push(["2026-01-01T00:00:03Z", "not its own"]);
  await site.copy("c1", { StartedAt, Status: "exited", Running: false });
  assert.equal(await readFile(site.file, "utf8"), text);
});
