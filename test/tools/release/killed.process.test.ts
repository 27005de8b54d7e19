import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { rollback, update } from "../../../src/tools/release/update.ts";
import { readRecord } from "../../../src/tools/install/installed-record.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { install, layoutIn, machine, optionsFor, publish, stateOf } from "./machine.ts";

const script = fileURLToPath(new URL("killed-update.ts", import.meta.url));

/** Runs an update in a process, which is killed at that step, or so many milliseconds after its first one. */
async function killed(dir: string, from: string, when: string | number): Promise<readonly string[]> {
  const args = [
    "--disable-warning=ExperimentalWarning",
    script,
    dir,
    from,
    ...(typeof when === "string" ? [when] : []),
  ];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "exit");
  if (typeof when === "number") child.stdout.once("data", () => setTimeout(() => child.kill("SIGKILL"), when));
  const reached = await textOf(child.stdout);
  // Its lock counts until the process has gone, which is after the end of what it prints.
  await ended;
  return reached.trimEnd().split("\n");
}

/** Asserts that after a kill some version runs and works, and that the next update completes. */
async function assertMended(dir: string, index: string, when: string): Promise<void> {
  const after = await stateOf(dir);
  assert.equal(after["works"], after["current"], when);
  for (const part of ["operator", "gateway"]) assert.ok(after[part] !== undefined, `${when}: ${part}`);
  assert.ok(!(await machine(dir).calls()).includes("NOBODY LISTENS"), when);
  const said: string[] = [];
  await update(optionsFor(dir, said, { from: index }));
  assert.deepEqual(
    await stateOf(dir),
    { current: "0.2.0", works: "0.2.0", operator: "0.2.0", gateway: "0.2.0", standby: undefined },
    `${when}: ${said.join("; ")}`,
  );
  const { version, previous } = (await readRecord(layoutIn(dir))) ?? {};
  assert.deepEqual({ version, previous }, { version: "0.2.0", previous: ["0.1.0"] }, when);
  const files = (await readdir(layoutIn(dir).prefix)).toSorted();
  assert.deepEqual(files, ["0.1.0", "0.2.0", "current", "installed.json"], when);
}

const steps = [
  "download",
  "signature",
  "unpack",
  "switch",
  "units",
  "standby",
  "operator",
  "gateway",
  "end of the standby",
  "slots",
  "record",
  "prune",
] as const;

it("an update that is killed at any of its steps, or at any time, leaves a working version, and the next one completes", async (test) => {
  await using directory = await tempDir();
  const index = await publish(join(directory.path, "published"), { version: "0.2.0" });
  const seen = new Set<string>();
  const times = Array.from({ length: 12 }, (_, at) => at * 20 + Math.floor(Math.random() * 20));
  for (const when of [...steps, ...times]) {
    const dir = join(directory.path, `killed-at-${when}`.replaceAll(" ", "-"));
    await install(dir, { version: "0.1.0" });
    const reached = await killed(dir, index, when);
    for (const step of reached) seen.add(step);
    if (typeof when === "string") assert.equal(reached.at(-1), when);
    test.diagnostic(`killed at ${when}, in the step ${reached.at(-1) ?? "none"}`);
    await assertMended(dir, index, `killed at ${when}`);
  }
  assert.deepEqual([...seen].toSorted(), [...steps].toSorted());
});

it("a return to the earlier release that is killed is finished by the next command", async () => {
  await using directory = await tempDir();
  const index = await publish(join(directory.path, "published"), { version: "0.2.0", neverReady: "all" });
  for (const when of ["back", "switch"]) {
    const dir = join(directory.path, when);
    await install(dir, { version: "0.1.0" });
    await killed(dir, index, when);
    assert.match(await readFile(join(layoutIn(dir).prefix, ".update.json"), "utf8"), /"to":"0\.2\.0"/);
    const said: string[] = [];
    await assert.rejects(update(optionsFor(dir, said, { from: index })), { code: "update.rolled_back" });
    assert.match(said[0] ?? "", /^an update from 0\.1\.0 to 0\.2\.0 was interrupted: /);
    const { current, works, operator, gateway, standby } = await stateOf(dir);
    assert.deepEqual([current, works, operator, gateway, standby], ["0.1.0", "0.1.0", "0.1.0", "0.1.0", undefined]);
  }
});

it("a rollback that is killed is finished by the next one", async () => {
  await using directory = await tempDir();
  const dir = join(directory.path, "machine");
  await install(dir, { version: "0.1.0" });
  const index = await publish(join(directory.path, "published"), { version: "0.2.0" });
  await update(optionsFor(dir, [], { from: index }));
  await killed(dir, "rollback", "gateway");
  const said: string[] = [];
  await rollback(optionsFor(dir, said));
  assert.deepEqual(said, [
    "an update from 0.2.0 to 0.1.0 was interrupted: finishing it",
    "Berth 0.1.0 is installed again; `berth update` goes to a newer release",
  ]);
  const { current, operator, gateway } = await stateOf(dir);
  assert.deepEqual([current, operator, gateway], ["0.1.0", "0.1.0", "0.1.0"]);
});

it("an update writes what the services' user can read, whatever the caller's umask is", async () => {
  await using directory = await tempDir();
  const dir = join(directory.path, "machine");
  await install(dir, { version: "0.1.0" });
  const index = await publish(join(directory.path, "published"), { version: "0.2.0" });
  const before = process.umask(0o077);
  try {
    await update(optionsFor(dir, [], { from: index }));
  } finally {
    process.umask(before);
  }
  for (const [path, mode] of [
    ["0.2.0", 0o755],
    ["0.2.0/bin", 0o755],
    ["0.2.0/bin/berth", 0o755],
    ["0.2.0/release.json", 0o644],
  ] as const)
    assert.equal((await stat(join(layoutIn(dir).prefix, path))).mode & 0o777, mode, path);
});
