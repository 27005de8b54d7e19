import assert from "node:assert/strict";
import { appendFile, mkdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import { LogCopies, type Speaking } from "../../../src/runtimes/docker/log-copy.ts";
import { startDockerDaemon } from "../../doubles/docker-daemon.ts";
import { tempDir } from "../../support/temp-dir.ts";

const limitMs = 30_000;

interface LogSite extends AsyncDisposable {
  readonly copies: LogCopies;
  readonly file: string;
}

/** Copies of what a DOUBLE of a daemon says of every container: the lines that the test gives, then the end. */
async function copying(
  logBytes: number,
  said: (id: string) => readonly (readonly [stamp: string, line: string])[],
): Promise<LogSite> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  await mkdir(join(dir.path, "logs"));
  const daemon = stack.use(
    await startDockerDaemon((asked, response) => {
      const id = /\/containers\/(\w+)\/logs$/.exec(asked)?.[1] ?? "";
      response.writeHead(200);
      for (const [stamp, line] of said(id)) response.write(frame(`${stamp} ${line}\n`));
      response.end();
    }),
  );
  const copies = new LogCopies({ daemon: new Daemon(daemon.path), stateDir: dir.path, logBytes });
  stack.defer(() => copies.close());
  const owned = stack.move();
  return {
    copies,
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

function container(id: string, StartedAt: string): Speaking {
  const label = { instance: "i", slot: "primary", role: "main", ordinal: 0, hash: "h", port: 8081, name: "n" } as const;
  const State = { Status: "running", Running: true, Paused: false, Restarting: false, OOMKilled: false, Dead: false };
  return {
    id,
    label,
    info: { State: { ...State, Pid: 1, ExitCode: 0, Error: "", StartedAt, FinishedAt: StartedAt } },
  };
}

it("the log of a slot whose containers say little and come often stays bounded", async () => {
  const logBytes = 4096;
  const line = "x".repeat(1000);
  await using site = await copying(logBytes, (id) => [[`2026-01-01T00:00:${id.slice(1)}Z`, line]]);
  for (let run = 10; run < 40; run++) {
    site.copies.follow(container(`c${run}`, `2026-01-01T00:00:${run}Z`));
    await site.copies.drained(`c${run}`, limitMs);
  }
  assert.ok((await stat(site.file)).size <= logBytes + 1100);
  assert.match(await readFile(site.file, "utf8"), /00:00:39Z stdout x/);
});

it("output of a container after the clock was set back does not count as old", async () => {
  const now = new Date(Date.now() - 60_000).toISOString();
  await using site = await copying(1_000_000, () => [[now, "said now"]]);
  const ahead = new Date(Date.now() + 3_600_000).toISOString();
  await appendFile(site.file, `${ahead} stdout before the clock was set back\n`);
  site.copies.follow(container("c1", now));
  await site.copies.drained("c1", limitMs);
  assert.match(await readFile(site.file, "utf8"), /said now/);
});

it("a container that runs on is followed again where the daemon ended its log", async () => {
  const lines: [string, string][] = [["2026-01-01T00:00:01Z", "first"]];
  await using site = await copying(1_000_000, () => lines);
  const speaking = container("c1", "2026-01-01T00:00:00Z");
  site.copies.follow(speaking);
  await site.copies.drained("c1", limitMs);
  lines.push(["2026-01-01T00:00:02Z", "second"]);
  site.copies.follow(speaking);
  await site.copies.drained("c1", limitMs);
  const text = "2026-01-01T00:00:01Z stdout first\n2026-01-01T00:00:02Z stdout second\n";
  assert.equal(await readFile(site.file, "utf8"), text);
  // One that has ended has said everything.
  lines.push(["2026-01-01T00:00:03Z", "not its own"]);
  site.copies.follow({ ...speaking, info: { State: { ...speaking.info.State, Status: "exited", Running: false } } });
  await site.copies.drained("c1", limitMs);
  assert.equal(await readFile(site.file, "utf8"), text);
});
