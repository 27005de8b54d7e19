import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { Kind } from "../../../src/api/names.ts";
import { openManifestWriter } from "../../../src/store/files/manifest-writer.ts";
import { openRemovals, removalRecorder } from "../../../src/store/state/removals.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { directoryWith, noSweep, site, type Files, type Site } from "../files/site.ts";
import { published } from "../published-slot.ts";

/** A configuration directory whose API removes resources. */
async function scene(files: Files) {
  await using stack = new AsyncDisposableStack();
  const { path: configDir } = stack.use(await directoryWith(files));
  const { path: stateDir } = stack.use(await tempDir());
  const recorder = removalRecorder(stateDir);
  const writer = openManifestWriter({ configDir, isReadOnly: false, removals: recorder });
  const owned = stack.move();
  const at = (path: string): string => join(configDir, path);
  return {
    recorder,
    writer,
    at,
    /** The source of an operator that starts now; its clock stands still. */
    open: async (...seed: readonly string[]): Promise<Site> =>
      owned.use(
        await site(
          {},
          {
            ...noSweep,
            configDir,
            isStopped: true,
            seed: seed.map((name) => ({ ...published(name), file: at(`slots/${name}.toml`) })),
            removals: owned.use(await openRemovals(stateDir)),
          },
        ),
      ),
    remove: async (kind: Kind, name: string) => await writer.remove(kind, name, { isKnown: true }),
    records: join(stateDir, "requests/removals"),
    recorded: async () => await readdir(join(stateDir, "requests/removals")),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const off = "enabled = false\n";
const a = { "slots/a.toml": off };
const both = { ...a, "slots/b.toml": off };

/** Looks, lets time pass for this long, and looks again. */
async function pass(source: Site, ms: number): Promise<void> {
  await source.pass(0);
  await source.pass(ms);
}

describe("a resource that was removed over the API", { concurrency: true }, () => {
  it("is deleted, also where it was the last one, and the record goes with it", async () => {
    await using at = await scene(both);
    const source = await at.open();
    for (const name of ["a", "b"]) assert.equal(await at.remove("Slot", name), true);
    await pass(source, 0);
    assert.deepEqual([source.names(), source.reasons()], [[], []]);
    assert.deepEqual(await at.recorded(), []);
  });

  it("is asked to go once, also without an operator", async () => {
    await using at = await scene(a);
    await unlink(at.at("slots/a.toml"));
    for (const isFirst of [true, false]) assert.equal(await at.remove("Slot", "a"), isFirst);
  });

  it("leaves other resources of an emptied directory in force", async () => {
    await using at = await scene(both);
    const source = await at.open();
    for (const name of ["a", "b"]) await unlink(at.at(`slots/${name}.toml`));
    await pass(source, 60_000);
    assert.deepEqual([source.names(), source.reasons()], [["a", "b"], ["SourceEmpty"]]);
    // Its file went before: it is in force all the same, and may be asked to go.
    assert.equal(await at.remove("Slot", "a"), true);
    await pass(source, 60_000);
    await pass(source, 60_000);
    assert.deepEqual([source.names(), source.reasons()], [["b"], ["SourceEmpty"]]);
    await at.remove("Slot", "b");
    await pass(source, 0);
    assert.deepEqual([source.names(), source.reasons()], [[], []]);
    assert.deepEqual(await at.recorded(), []);
  });

  it("stays where its file returns, and its record is void once it is declared again", async () => {
    await using at = await scene(a);
    const source = await at.open();
    await at.remove("Slot", "a");
    await pass(source, 1999);
    await at.writer.create("Slot", "a", { spec: { enabled: false } });
    assert.deepEqual(await at.recorded(), []);
    await pass(source, 60_000);
    assert.deepEqual(source.names(), ["a"]);
  });

  it("stays where its file is still there ten seconds later", async () => {
    await using at = await scene(a);
    // The API ended between the record and the removal.
    await at.recorder.put("Slot", "a");
    const source = await at.open();
    await pass(source, 2000);
    assert.deepEqual([source.names(), (await at.recorded()).length], [["a"], 1]);
    const [record = ""] = await at.recorded();
    const file = join(at.records, record);
    const text = await readFile(file, "utf8");
    const tenSecondsAgo = new Date(Date.now() - 10_001).toISOString();
    await writeFile(file, text.replace(/"requestedAt":"[^"]*"/, `"requestedAt":"${tenSecondsAgo}"`));
    await until("it is void", async () => {
      await source.pass(0);
      return (await at.recorded()).length === 0;
    });
    await pass(source, 60_000);
    assert.deepEqual([source.names(), await at.recorded()], [["a"], []]);
  });

  it("leaves no record where it was not declared, or cannot be removed", async () => {
    await using at = await scene(a);
    await at.recorder.put("Model", "an odd/name");
    const source = await at.open();
    await source.pass(0);
    assert.deepEqual(await at.recorded(), []);
    assert.equal(await at.writer.remove("Upstream", "none", { isKnown: false }), false);
    await rm(at.at("slots/a.toml"));
    await mkdir(at.at("slots/a.toml"));
    assert.equal(await at.writer.remove("Slot", "a", { isKnown: false }), false);
    assert.deepEqual(await at.recorded(), []);
  });
});

it("a removal that was asked for anew stays when the earlier request is forgotten", async () => {
  await using directory = await tempDir();
  const recorder = removalRecorder(directory.path);
  await using removals = await openRemovals(directory.path);
  await recorder.put("Slot", "a");
  await removals.scan();
  const [earlier] = removals.list();
  assert.ok(earlier !== undefined);
  await recorder.put("Slot", "a");
  removals.forget(earlier);
  await removals.scan();
  const [later, ...more] = removals.list();
  assert.ok(later !== undefined && later.token !== earlier.token);
  removals.forget(later);
  await removals.scan();
  assert.deepEqual([more, removals.list()], [[], []]);
});
