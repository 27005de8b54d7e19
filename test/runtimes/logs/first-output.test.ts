import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { Observed } from "../../../src/api/workload.ts";
import { firstOutput } from "../../../src/runtimes/logs/first-output.ts";
import { tempDir } from "../../support/temp-dir.ts";

const startedAt = new Date("2026-01-01T00:00:10.500Z");
const seen: Omit<Observed, "id"> = {
  slot: "a",
  role: "main",
  ordinal: 0,
  hash: "h",
  host: "127.0.0.1",
  port: 8081,
  phase: "running",
  isListening: true,
  isPortTaken: false,
  startedAt,
};
const record = {
  schema: 1,
  instance: "i",
  slot: "a",
  role: "main",
  ordinal: 0,
  hash: "h",
  port: 8081,
  start: "s",
  uid: 1000,
  bootId: "b",
  pidNamespace: "n",
  pid: 42,
  startTime: "1",
  startedAt: startedAt.toISOString(),
  logOffset: 8,
};

/** A state directory with that record and these logs. */
async function site(logs: Readonly<Record<string, string>>): Promise<AsyncDisposable & { readonly path: string }> {
  const directory = await tempDir();
  for (const name of ["logs", "processes"]) await mkdir(join(directory.path, name));
  await writeFile(join(directory.path, "processes/a.main.json"), JSON.stringify(record));
  for (const [name, text] of Object.entries(logs)) await writeFile(join(directory.path, "logs", name), text);
  return directory;
}

describe("the output of an engine since its start", () => {
  const cut = "earlier\nloads\nlayers\n";
  const stamped =
    "2026-01-01T00:00:09.999999999Z stderr of the last\n" +
    "2026-01-01T00:00:10.600000000Z stderr loads\n2026-01-01T00:00:11.000000000Z stdout layers\n";
  for (const [what, logs, id, output] of [
    ["is the part of its log from that offset on", { "a.main.log": cut }, { pid: 42 }, "loads\nlayers\n"],
    [
      "is in the older part of a log that was cut since",
      { "a.main.log": "new\n", "a.main.log.1": cut },
      { pid: 42 },
      "loads\nlayers\n",
    ],
    ["is nothing where no log is left", {}, { pid: 42 }, ""],
    ["is nothing where another process is meant", { "a.main.log": cut }, { pid: 43 }, ""],
    [
      "of a container leaves out the lines of the container before it, stamps and streams",
      { "a.main.container.log": stamped },
      { containerId: "0123" },
      "loads\nlayers",
    ],
  ] as const)
    it(what, async () => {
      await using state = await site(logs);
      assert.equal(await firstOutput(state.path, { ...seen, id }), output);
    });
});
