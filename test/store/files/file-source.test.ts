import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { link, mkdir, open as openFile, rename, rm, symlink, unlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { apiVersion, type Kind } from "../../../src/api/names.ts";
import { completeSlot, slotSpecSchema } from "../../../src/api/slot.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { openFileSource, type FileSourceOptions } from "../../../src/store/files/file-source.ts";
import type { DesiredSource } from "../../../src/store/store.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { published as publishedSlot } from "../published-slot.ts";
import { describeSource, listen } from "../source-conformance.ts";

const directories = {
  Slot: "slots",
  Model: "models",
  Upstream: "upstreams",
  SlotGroup: "groups",
} as const satisfies Record<Kind, string>;

interface Env extends AsyncDisposable {
  readonly dir: string;
  readonly source: DesiredSource;
  slot(name: string): string;
}

async function opened(prepare?: (dir: string) => Promise<void>, options?: Partial<FileSourceOptions>): Promise<Env> {
  await using stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await tempDir());
  for (const name of Object.values(directories)) await mkdir(join(dir, name));
  await prepare?.(dir);
  const source = stack.use(await openFileSource({ configDir: dir, ...options }));
  const owned = stack.move();
  return {
    dir,
    source,
    slot: (name) => join(dir, "slots", name),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** What is seen, however late, is seen by an event. */
const noSweep = { sweepMs: 3_600_000 } as const;

const toml = (model: string): string => `[model]\ndefault = "${model}"\n`;
const modelOf = (source: DesiredSource, name: string): string | undefined =>
  source.get("Slot", name)?.spec?.model.default;

describeSource("YAML files", async () => {
  const env = await opened();
  const fileOf = (kind: Kind, name: string): string => join(env.dir, directories[kind], `${name}.yaml`);
  return {
    source: env.source,
    put: (kind, name, spec, labels) =>
      writeFile(
        fileOf(kind, name),
        JSON.stringify({ apiVersion, kind, metadata: { name, ...(labels && { labels }) }, spec }),
      ),
    remove: (kind, name) => unlink(fileOf(kind, name)),
    originOf: (kind, name) => ({ kind: "file", path: fileOf(kind, name) }),
    [Symbol.asyncDispose]: () => env[Symbol.asyncDispose](),
  };
});

describe("files of a configuration directory", { concurrency: true }, () => {
  it("makes no slot of another program's document, and says that it is there", async () => {
    await using env = await opened(async (dir) => {
      const foreign = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n";
      await writeFile(join(dir, "slots", "kustomization.yaml"), foreign);
      await writeFile(join(dir, "slots", "a.toml"), toml("m"));
    });
    assert.deepEqual(
      env.source.list("Slot").map(({ name }) => name),
      ["a"],
    );
    // A file that was written just now is read again first.
    const problem = await until("it is reported", () => env.source.problems()[0]);
    assert.deepEqual([problem.reason, problem.file], ["ForeignDocument", env.slot("kustomization.yaml")]);
    await rm(env.slot("kustomization.yaml"));
    await until("it is gone", () => env.source.problems().length === 0);
  });

  it("reports changes at once in a directory that was made anew, also with the old directory's inode", async () => {
    const prepare = async (dir: string): Promise<void> => {
      for (const name of ["a", "b"]) await writeFile(join(dir, `slots/${name}.toml`), toml("one"));
    };
    await using env = await opened(prepare, noSweep);
    const slots = join(env.dir, "slots");
    const before = statSync(slots).ino;
    rmSync(slots, { recursive: true });
    const spares = Array.from({ length: 200 }, (_, index) => join(env.dir, `spare-${index}`));
    const made = spares.find((spare) => {
      mkdirSync(spare);
      return statSync(spare).ino === before;
    });
    renameSync(made ?? join(env.dir, "spare-0"), slots);
    await until("it is seen empty", () => env.source.problems().length > 0);
    // Events come in order: what they had to say so far has been looked at when this is seen.
    await writeFile(join(env.dir, "models/m.toml"), 'source = "/models/m.gguf"\n');
    await until("a later event is seen", () => env.source.get("Model", "m"));
    await writeFile(env.slot("a.toml"), toml("two"));
    await until("the new file is seen", () => modelOf(env.source, "a") === "two");
  });

  it("takes an atomic rename over a file at once, and never loses the slot on the way", async () => {
    await using env = await opened((dir) => writeFile(join(dir, "slots/a.toml"), toml("one")));
    using heard = listen(env.source);
    await writeFile(env.slot(".a.toml.swp"), toml("two"));
    await rename(env.slot(".a.toml.swp"), env.slot("a.toml"));
    await until("the new model", () => modelOf(env.source, "a") === "two");
    assert.deepEqual(heard.keys, ["Slot/a"]);
  });

  it("takes hundreds of files that appear together", async () => {
    await using env = await opened();
    await Promise.all(
      Array.from({ length: 300 }, (_, index) => writeFile(env.slot(`s${index}.toml`), toml(`m${index}`))),
    );
    await until("all of them", () => env.source.list("Slot").length === 300);
    assert.equal(modelOf(env.source, "s299"), "m299");
  });

  it("follows a swapped ..data link", async () => {
    await using env = await opened(async (dir) => {
      const slots = join(dir, "slots");
      for (const [version, model] of [
        ["v1", "one"],
        ["v2", "two"],
      ] as const) {
        await mkdir(join(slots, `..${version}`));
        await writeFile(join(slots, `..${version}/a.yaml`), `model: {default: ${model}}\n`);
      }
      await symlink("..v1", join(slots, "..data"));
      await symlink("..data/a.yaml", join(slots, "a.yaml"));
    }, noSweep);
    assert.equal(modelOf(env.source, "a"), "one");
    await symlink("..v2", env.slot("..data_tmp"));
    await rename(env.slot("..data_tmp"), env.slot("..data"));
    await until("the second version", () => modelOf(env.source, "a") === "two");
  });

  it("follows a swapped link to the whole directory, deleting what the new one lacks", async () => {
    await using outside = await tempDir();
    for (const version of ["v1", "v2"]) {
      await mkdir(join(outside.path, version));
      await writeFile(join(outside.path, version, "a.toml"), toml(version));
    }
    await writeFile(join(outside.path, "v1/b.toml"), toml("b"));
    const clock = { now: 1_000_000 };
    const prepare = async (dir: string): Promise<void> => {
      await rm(join(dir, "slots"), { recursive: true });
      await symlink(join(outside.path, "v1"), join(dir, "slots"));
    };
    await using env = await opened(prepare, { ...noSweep, now: () => new Date(clock.now) });
    assert.equal(modelOf(env.source, "b"), "b");
    await symlink(join(outside.path, "v2"), join(env.dir, "next"));
    await rename(join(env.dir, "next"), join(env.dir, "slots"));
    await until("the second version", () => modelOf(env.source, "a") === "v2");
    assert.equal(modelOf(env.source, "b"), "b", "a removal waits");
    clock.now += 2000;
    await until("the end of b", () => env.source.get("Slot", "b") === undefined);
  });

  it("sees at once a link swapped further up, and an edit behind a file's link", async () => {
    await using outside = await tempDir();
    for (const version of ["v1", "v2"]) {
      await mkdir(join(outside.path, version, "slots"), { recursive: true });
      await writeFile(join(outside.path, version, "slots/a.toml"), toml(version));
    }
    await mkdir(join(outside.path, "far"));
    await writeFile(join(outside.path, "far/b.toml"), toml("one"));
    await symlink("../../far/b.toml", join(outside.path, "v2/slots/b.toml"));
    await symlink("v1", join(outside.path, "current"));
    await using source = await openFileSource({ configDir: join(outside.path, "current"), ...noSweep });
    assert.equal(modelOf(source, "a"), "v1");
    await symlink("v2", join(outside.path, "next"));
    await rename(join(outside.path, "next"), join(outside.path, "current"));
    await until("the second version", () => modelOf(source, "a") === "v2");
    assert.equal(modelOf(source, "b"), "one");
    await writeFile(join(outside.path, "far/b.toml"), toml("two"));
    await until("the edit", () => modelOf(source, "b") === "two");
  });

  it("keeps what an earlier operator published until the files say otherwise", async () => {
    const seed = ["a", "b", "c"].map((name) => published(name, `/moved/config/slots/${name}.toml`));
    const clock = { now: 1_000_000 };
    await using env = await opened(
      async (dir) => {
        await writeFile(join(dir, "slots/a.toml"), "broken");
        await utimes(join(dir, "slots/a.toml"), 1, 1);
        await writeFile(join(dir, "slots/b.toml"), toml("edited"));
      },
      { seed, now: () => new Date(clock.now) },
    );
    assert.equal(modelOf(env.source, "a"), "seeded");
    assert.equal(env.source.get("Slot", "a")?.diagnostics.length, 1);
    assert.equal(modelOf(env.source, "b"), "edited");
    assert.equal(modelOf(env.source, "c"), "seeded", "a removal waits");
    clock.now += 2000;
    await env.source.resync();
    assert.equal(env.source.get("Slot", "c"), undefined);
  });

  it("reads a manifest whole that an earlier version published in part, under the same hash", async () => {
    const whole = `replicas = 2\n${toml("m")}`;
    await using first = await opened((dir) => writeFile(join(dir, "slots/a.toml"), whole));
    const specHash = first.source.get("Slot", "a")?.specHash;
    assert.ok(specHash !== undefined);
    // A version without replicas keeps the last valid spec, less the field that it does not know.
    const spec = completeSlot("a", slotSpecSchema.parse({ model: { default: "m" } }));
    const seed = [{ ...published("a", "/moved/config/slots/a.toml"), spec, specHash }];
    await using env = await opened((dir) => writeFile(join(dir, "slots/a.toml"), whole), { seed });
    assert.equal(env.source.get("Slot", "a")?.spec?.replicas, 2);
  });

  it("deletes nothing that was published when the directory is empty at start", async () => {
    const clock = { now: 1_000_000 };
    await using env = await opened(undefined, {
      seed: [published("a", "/moved/config/slots/a.toml")],
      now: () => new Date(clock.now),
    });
    clock.now += 60_000;
    await env.source.resync();
    assert.equal(modelOf(env.source, "a"), "seeded");
    assert.equal(env.source.problems()[0]?.reason, "SourceEmpty");
  });

  it("accepts a file that is saved again within two seconds of a removal", async () => {
    const clock = { now: 1_000_000 };
    await using env = await opened((dir) => writeFile(join(dir, "slots/a.toml"), toml("one")), {
      now: () => new Date(clock.now),
    });
    using heard = listen(env.source);
    await unlink(env.slot("a.toml"));
    await env.source.resync();
    clock.now += 1999;
    await env.source.resync();
    assert.equal(modelOf(env.source, "a"), "one");
    await writeFile(env.slot("a.toml"), toml("one"));
    await env.source.resync();
    clock.now += 60_000;
    await env.source.resync();
    assert.equal(modelOf(env.source, "a"), "one");
    assert.deepEqual(heard.keys, []);
  });

  it("deletes nothing when several files vanish and none is left, until a file is there again", async () => {
    const clock = { now: 1_000_000 };
    await using env = await opened(
      async (dir) => {
        for (const name of ["a", "b"]) await writeFile(join(dir, `slots/${name}.toml`), toml(name));
        await writeFile(join(dir, "models/m.yaml"), "source: file:///m.gguf\n");
      },
      { now: () => new Date(clock.now) },
    );
    await Promise.all(["a.toml", "b.toml"].map((name) => unlink(env.slot(name))));
    for (let look = 0; look < 3; look++) {
      clock.now += 60_000;
      await env.source.resync();
    }
    assert.equal(env.source.list("Slot").length, 2);
    assert.deepEqual(
      env.source.problems().map(({ reason, file }) => [reason, file]),
      [["SourceEmpty", join(env.dir, "slots")]],
    );
    await writeFile(env.slot("b.toml"), toml("b"));
    await env.source.resync();
    assert.equal(env.source.list("Slot").length, 2, "the two seconds begin now");
    assert.deepEqual(env.source.problems(), []);
    clock.now += 2000;
    await env.source.resync();
    assert.deepEqual(
      env.source.list("Slot").map(({ name }) => name),
      ["b"],
    );
  });

  for (const [what, take] of [
    ["moved away", (dir: string) => rename(join(dir, "slots"), join(dir, "elsewhere"))],
    [
      "replaced by an empty one",
      async (dir: string) => {
        await rename(join(dir, "slots"), join(dir, "elsewhere"));
        await mkdir(join(dir, "slots"));
      },
    ],
    ["gone with all the configuration", (dir: string) => rm(dir, { recursive: true })],
  ] as const) {
    it(`deletes nothing when the directory is ${what}`, async () => {
      const clock = { now: 1_000_000 };
      await using env = await opened((dir) => writeFile(join(dir, "slots/a.toml"), toml("one")), {
        now: () => new Date(clock.now),
      });
      await take(env.dir);
      for (let look = 0; look < 3; look++) {
        clock.now += 60_000;
        await env.source.resync();
      }
      assert.equal(modelOf(env.source, "a"), "one");
      assert.match(env.source.problems()[0]?.reason ?? "", /^Source(Empty|Unreadable)$/);
    });
  }

  it("takes no slot from an invalid name or from an entry that is not a file, and reports it until it is gone", async () => {
    await using env = await opened(async (dir) => {
      await mkdir(join(dir, "slots/dir.toml"));
      for (const name of ["a", "With Space"]) await writeFile(join(dir, `slots/${name}.toml`), toml(name));
      await writeFile(join(dir, "slots/Broken.toml"), "[model");
      await utimes(join(dir, "slots/Broken.toml"), 1, 1);
    });
    const told = (): (readonly [string, string])[] =>
      env.source.problems().map(({ reason, message }) => [reason, message.replaceAll(env.dir, "DIR")] as const);
    const rule = "1 to 32 lower-case letters, digits and dashes";
    await until("all are read", () => told().length === 3);
    assert.deepEqual(
      new Set(told().map(([reason, message]) => `${reason}: ${message}`)),
      new Set([
        `InvalidName: DIR/slots/Broken.toml declares no slot: "Broken" is not a slot name: ${rule}`,
        `InvalidName: DIR/slots/With Space.toml declares no slot: "With Space" is not a slot name: ${rule}`,
        "NotAFile: DIR/slots/dir.toml is not a plain file and is not read",
      ]),
    );
    assert.deepEqual(
      env.source.list("Slot").map(({ name }) => name),
      ["a"],
    );
    await rename(env.slot("Broken.toml"), env.slot("b.txt"));
    await rename(env.slot("With Space.toml"), env.slot("c.toml"));
    await rm(env.slot("dir.toml"), { recursive: true });
    await until("it is mended", () => env.source.list("Slot").length === 2 && env.source.problems().length === 0);
  });

  it("starts without a directory and sees it come", async () => {
    await using parent = await tempDir();
    const configDir = join(parent.path, "later");
    await using source = await openFileSource({ configDir, sweepMs: 60_000 });
    assert.equal(source.problems()[0]?.reason, "SourceUnreadable");
    await mkdir(join(configDir, "slots"), { recursive: true });
    await writeFile(join(configDir, "slots/a.toml"), toml("one"));
    await until("the slot", () => modelOf(source, "a") === "one");
    assert.deepEqual(source.problems(), []);
  });

  it("keeps a document that a half-written file lacks for two seconds", async () => {
    const clock = { now: 1_000_000 };
    await using env = await opened(
      (dir) => writeFile(join(dir, "slots/all.yaml"), manifest("a", "m") + manifest("b", "m")),
      {
        now: () => new Date(clock.now),
      },
    );
    assert.equal(env.source.list("Slot").length, 2);
    await writeFile(env.slot("all.yaml"), manifest("a", "m"));
    await env.source.resync();
    clock.now += 1999;
    await env.source.resync();
    assert.equal(modelOf(env.source, "b"), "m");
    clock.now += 1;
    await env.source.resync();
    assert.equal(env.source.get("Slot", "b"), undefined);
  });

  it("treats an empty file like a broken one", async () => {
    await using env = await opened((dir) => writeFile(join(dir, "slots/a.toml"), toml("one")));
    await writeFile(env.slot("a.toml"), "");
    const seen = await until("the diagnosis", () => {
      const now = env.source.get("Slot", "a");
      return now?.diagnostics.length === 1 ? now : undefined;
    });
    assert.equal(seen.spec?.model.default, "one");
  });

  it("never shows the moment between truncating and writing", async () => {
    await using env = await opened((dir) => writeFile(join(dir, "slots/a.toml"), toml("m0")));
    let broken = 0;
    let savedAt = 0;
    let slowestMs = 0;
    using stack = new DisposableStack();
    stack.use(
      env.source.watch(() => {
        // Where the machine stands still between the two for a quarter of a second, it is told as it is.
        slowestMs = Math.max(slowestMs, Date.now() - savedAt);
        if (slowestMs < 200) broken += env.source.get("Slot", "a")?.diagnostics.length ?? 0;
      }),
    );
    for (let save = 1; save <= 50; save++) {
      savedAt = Date.now();
      await writeFile(env.slot("a.toml"), toml(`m${save}`));
      slowestMs = Math.max(slowestMs, Date.now() - savedAt);
    }
    await until("the last save", () => modelOf(env.source, "a") === "m50");
    assert.equal(broken, 0);
  });

  it("treats a file as empty only once it stays empty, whatever its time says", async () => {
    const clock = { now: 1_000_000 };
    await using env = await opened((dir) => writeFile(join(dir, "slots/a.toml"), toml("one")), {
      now: () => new Date(clock.now),
    });
    using heard = listen(env.source);
    // In one turn, as ext4 shows a save that has just begun.
    writeFileSync(env.slot("a.toml"), "");
    utimesSync(env.slot("a.toml"), 0, 0);
    await env.source.resync();
    clock.now += 200;
    await env.source.resync();
    assert.deepEqual([env.source.get("Slot", "a")?.diagnostics, heard.keys], [[], []]);
    clock.now += 50;
    await env.source.resync();
    assert.equal(env.source.get("Slot", "a")?.diagnostics.length, 1);
  });

  it("keeps the incumbent of two files, and hands over when it goes", async () => {
    // No time goes by: what is only removed after a while stays.
    const start = new Date();
    await using env = await opened((dir) => writeFile(join(dir, "slots/b.yaml"), manifest("x", "first")), {
      now: () => start,
    });
    await writeFile(env.slot("a.yaml"), manifest("x", "second"));
    const seen = await until("the duplicate", () => {
      const now = env.source.get("Slot", "x");
      return now?.diagnostics.length === 1 ? now : undefined;
    });
    assert.equal(seen.spec?.model.default, "first");
    assert.equal(seen.diagnostics[0]?.reason, "DuplicateResource");
    assert.equal(seen.diagnostics[0]?.file, env.slot("a.yaml"));
    const { line, column, message } = seen.diagnostics[0] ?? {};
    assert.deepEqual([line, column], [5, 3]);
    assert.equal(
      message,
      "Slot x is already defined at slots/b.yaml:5:3, which stays in force; change or delete one of the two",
    );
    await unlink(env.slot("b.yaml"));
    await until("the heir", () => modelOf(env.source, "x") === "second");
    assert.deepEqual(env.source.get("Slot", "x")?.diagnostics, []);
  });

  it("prefers the first by path of two new files", async () => {
    await using env = await opened(async (dir) => {
      await writeFile(join(dir, "slots/b.yaml"), manifest("x", "second"));
      await writeFile(join(dir, "slots/a.yaml"), manifest("x", "first"));
    });
    assert.equal(modelOf(env.source, "x"), "first");
  });

  it("reads no manifest that is larger than 1 MiB, and takes it again once it is smaller", async () => {
    await using env = await opened((dir) => writeFile(join(dir, "slots/a.toml"), toml("one")));
    // As sparse as a file can be: reading it would take all memory.
    for (const name of ["a.toml", "b.toml"]) {
      await using file = await openFile(env.slot(name), "a");
      await file.truncate(8 * 1024 ** 3);
    }
    await env.source.resync();
    const message = "cannot be read (it is larger than 1 MiB, the limit of such a file)";
    for (const name of ["a", "b"]) {
      const found = env.source.get("Slot", name)?.diagnostics;
      assert.deepEqual(found, [{ reason: "Unreadable", file: env.slot(`${name}.toml`), message }]);
    }
    assert.equal(modelOf(env.source, "a"), "one");
    assert.equal(env.source.get("Slot", "b")?.spec, undefined);
    await writeFile(env.slot("a.toml"), `${toml("two")}# ${"x".repeat(1024 ** 2 - 64)}`);
    await env.source.resync();
    assert.deepEqual([modelOf(env.source, "a"), env.source.get("Slot", "a")?.diagnostics], ["two", []]);
  });

  it("concludes nothing about removals while a file cannot be read", async () => {
    await using env = await opened((dir) => writeFile(join(dir, "slots/a.toml"), toml("one")));
    // A loop of links cannot be read even by root.
    await symlink("loop.toml", env.slot("loop.toml"));
    await env.source.resync();
    assert.equal(env.source.problems()[0]?.reason, "SourceUnreadable");
    await unlink(env.slot("a.toml"));
    await env.source.resync();
    assert.equal(modelOf(env.source, "a"), "one");
    await unlink(env.slot("loop.toml"));
    await env.source.resync();
    assert.deepEqual(env.source.problems(), []);
  });

  it("reads only the file that was saved, and finds changes of other files at the next full listing", async () => {
    await using elsewhere = await tempDir();
    const otherName = (name: string): string => join(elsewhere.path, `${name}.toml`);
    await using env = await opened(async (dir) => {
      for (const name of ["a", "b", "c"]) {
        await writeFile(join(dir, `slots/${name}.toml`), toml("one"));
        await utimes(join(dir, `slots/${name}.toml`), 1, 1);
        await link(join(dir, `slots/${name}.toml`), otherName(name));
      }
    }, noSweep);
    // A write through another name of the file gives no event in its directory here.
    writeFileSync(otherName("c"), toml("two"));
    await until("the full listing that follows new watches", () => modelOf(env.source, "c") === "two");
    await writeFile(otherName("b"), toml("two"));
    await writeFile(env.slot("a.toml"), toml("two"));
    await until("the save", () => modelOf(env.source, "a") === "two");
    assert.equal(modelOf(env.source, "b"), "one");
    await env.source.resync();
    assert.equal(modelOf(env.source, "b"), "two");
  });

  it("lists everything when a known file becomes a link, is removed, or appears again", async () => {
    await using elsewhere = await tempDir();
    const target = join(elsewhere.path, "target");
    await writeFile(target, toml("linked"));
    await using env = await opened((dir) => writeFile(join(dir, "slots/a.toml"), toml("one")), noSweep);
    await symlink(target, env.slot("link"));
    await rename(env.slot("link"), env.slot("a.toml"));
    await until("the link's target", () => modelOf(env.source, "a") === "linked");
    await writeFile(target, toml("edited"));
    await until("an edit of the target", () => modelOf(env.source, "a") === "edited");
    await rename(env.slot("a.toml"), env.slot("aside"));
    await env.source.resync();
    await rename(env.slot("aside"), env.slot("a.toml"));
    await writeFile(target, toml("again"));
    await until("the file that came back", () => modelOf(env.source, "a") === "again");
  });

  it("learns of every save among 200 slots by its event, without waiting for a full listing", async () => {
    await using env = await opened(async (dir) => {
      for (let index = 0; index < 200; index++) await writeFile(join(dir, `slots/s${index}.toml`), toml("m"));
    }, noSweep);
    for (let save = 0; save < 50; save++) {
      const name = `s${(save * 37) % 200}`;
      const heard = new Set<string>();
      using stack = new DisposableStack();
      stack.use(env.source.watch((_kind, key) => void heard.add(key)));
      await writeFile(env.slot(`${name}.toml`), toml(`m${save}`));
      await until(`the save of ${name} is heard`, () => heard.has(name) && modelOf(env.source, name) === `m${save}`);
      assert.deepEqual([...heard], [name], "and nothing else");
    }
  });
});

function manifest(name: string, model: string): string {
  return `---\napiVersion: ${apiVersion}\nkind: Slot\nmetadata:\n  name: ${name}\nspec:\n  model:\n    default: ${model}\n`;
}

function published(name: string, file: string): PublishedSlot {
  return {
    ...publishedSlot(name),
    file,
    spec: completeSlot(name, slotSpecSchema.parse({ model: { default: "seeded" } })),
  };
}
