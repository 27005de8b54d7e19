import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { Kind } from "../../../src/api/names.ts";
import { openFileSource } from "../../../src/store/files/file-source.ts";
import { openManifestWriter } from "../../../src/store/files/manifest-writer.ts";
import { openRemovals, removalRecorder, type RemovalRecorder } from "../../../src/store/state/removals.ts";
import type { DesiredSource } from "../../../src/store/store.ts";
import type { ManifestWriter } from "../../../src/store/files/writer.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { published } from "../published-slot.ts";

interface Site extends AsyncDisposable {
  readonly configDir: string;
  readonly stateDir: string;
  readonly writer: ManifestWriter;
  readonly recorder: RemovalRecorder;
  /** Of an operator that starts now. */
  open(seed?: readonly string[]): Promise<DesiredSource>;
  /** Looks, lets time pass for this long, and looks again. */
  pass(source: DesiredSource, ms: number): Promise<void>;
  recorded(): Promise<readonly string[]>;
}

async function site(...slots: readonly string[]): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await tempDir());
  const configDir = join(path, "config");
  const stateDir = join(path, "state");
  await mkdir(join(configDir, "slots"), { recursive: true });
  await Promise.all(slots.map((name) => writeFile(join(configDir, `slots/${name}.toml`), "enabled = false\n")));
  const clock = { now: 1_000_000 };
  const recorder = removalRecorder(stateDir);
  const owned = stack.move();
  return {
    configDir,
    stateDir,
    recorder,
    writer: openManifestWriter({ configDir, isReadOnly: false, removals: recorder }),
    open: async (seed = []) =>
      owned.use(
        await openFileSource({
          configDir,
          seed: seed.map((name) => ({ ...published(name), file: join(configDir, `slots/${name}.toml`) })),
          removals: owned.use(await openRemovals(stateDir)),
          now: () => new Date(clock.now),
          sweepMs: 3_600_000,
        }),
      ),
    async pass(source, ms) {
      await source.resync();
      clock.now += ms;
      await source.resync();
    },
    recorded: async () => await readdir(join(stateDir, "requests/removals")),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const names = (source: DesiredSource): string[] => source.list("Slot").map(({ name }) => name);
const reasons = (source: DesiredSource): string[] => source.problems().map(({ reason }) => reason);
const remove = async (at: Site, kind: Kind, name: string): Promise<boolean> =>
  await at.writer.remove(kind, name, { isKnown: true });

describe("a resource that was removed over the API", { concurrency: true }, () => {
  it("is deleted, also where it was the last one, and the record goes with it", async () => {
    await using at = await site("a", "b");
    const source = await at.open();
    for (const name of ["a", "b"]) assert.equal(await remove(at, "Slot", name), true);
    assert.equal((await at.recorded()).length, 2);
    await at.pass(source, 2000);
    assert.deepEqual([names(source), reasons(source)], [[], []]);
    assert.deepEqual(await at.recorded(), []);
  });

  it("is deleted where no operator ran meanwhile", async () => {
    await using at = await site("a", "b");
    for (const name of ["a", "b"]) await remove(at, "Slot", name);
    const source = await at.open(["a", "b"]);
    assert.deepEqual(names(source), ["a", "b"]);
    await at.pass(source, 2000);
    assert.deepEqual([names(source), reasons(source)], [[], []]);
  });

  it("leaves other resources of an emptied directory in force", async () => {
    await using at = await site("a", "b");
    const source = await at.open();
    for (const name of ["a", "b"]) await unlink(join(at.configDir, `slots/${name}.toml`));
    await at.pass(source, 60_000);
    assert.deepEqual([names(source), reasons(source)], [["a", "b"], ["SourceEmpty"]]);
    // Its file went before: it is in force all the same, and may be asked to go.
    assert.equal(await remove(at, "Slot", "a"), false);
    await at.pass(source, 60_000);
    await at.pass(source, 60_000);
    assert.deepEqual([names(source), reasons(source)], [["b"], ["SourceEmpty"]]);
    await remove(at, "Slot", "b");
    await at.pass(source, 2000);
    assert.deepEqual([names(source), reasons(source)], [[], []]);
    assert.deepEqual(await at.recorded(), []);
  });

  it("may be a Model whose file vanished with all others", async () => {
    await using at = await site();
    await mkdir(join(at.configDir, "models"));
    const file = (name: string): string => join(at.configDir, `models/${name}.toml`);
    for (const name of ["m", "n"]) await writeFile(file(name), `source = "file:///${name}.gguf"\n`);
    const source = await at.open();
    for (const name of ["m", "n"]) await unlink(file(name));
    await at.pass(source, 60_000);
    assert.deepEqual(reasons(source), ["SourceEmpty"]);
    await remove(at, "Model", "m");
    await at.pass(source, 2000);
    assert.deepEqual(
      source.list("Model").map(({ name }) => name),
      ["n"],
    );
  });

  it("is checked on its own where its file vanished long before", async () => {
    await using at = await site("a");
    const source = await at.open(["a"]);
    await rm(join(at.configDir, "slots"), { recursive: true });
    await at.pass(source, 60_000);
    assert.deepEqual(reasons(source), ["SourceEmpty"]);
    await remove(at, "Slot", "a");
    await until("the removal is seen", () => reasons(source).length === 0);
    await at.pass(source, 2000);
    assert.deepEqual(names(source), []);
  });

  it("stays where its file returns, and its record is void once it is declared again", async () => {
    await using at = await site("a");
    const source = await at.open();
    await remove(at, "Slot", "a");
    await at.pass(source, 1999);
    await at.writer.create("Slot", "a", { spec: { enabled: false } });
    assert.deepEqual(await at.recorded(), []);
    await at.pass(source, 60_000);
    assert.deepEqual(names(source), ["a"]);
  });

  it("stays where its file is still there ten seconds later", async () => {
    await using at = await site("a");
    // The API ended between the record and the removal.
    await at.recorder.put("Slot", "a");
    const source = await at.open();
    await at.pass(source, 2000);
    assert.deepEqual([names(source), (await at.recorded()).length], [["a"], 1]);
    const [record = ""] = await at.recorded();
    const file = join(at.stateDir, "requests/removals", record);
    const text = await readFile(file, "utf8");
    const tenSecondsAgo = new Date(Date.now() - 10_001).toISOString();
    await writeFile(file, text.replace(/"requestedAt":"[^"]*"/, `"requestedAt":"${tenSecondsAgo}"`));
    await until("it is void", async () => {
      await source.resync();
      return (await at.recorded()).length === 0;
    });
    await at.pass(source, 60_000);
    assert.deepEqual([names(source), await at.recorded()], [["a"], []]);
  });

  it("leaves no record where it was not declared, or cannot be removed", async () => {
    await using at = await site("a");
    await at.recorder.put("Model", "an odd/name");
    const source = await at.open();
    await source.resync();
    assert.deepEqual(await at.recorded(), []);
    assert.equal(await at.writer.remove("Upstream", "none", { isKnown: false }), false);
    await rm(join(at.configDir, "slots/a.toml"));
    await mkdir(join(at.configDir, "slots/a.toml"));
    assert.equal(await at.writer.remove("Slot", "a", { isKnown: false }), false);
    assert.deepEqual(await at.recorded(), []);
  });
});
