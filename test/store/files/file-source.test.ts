import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { mkdir, open as openFile, rename, rm, symlink, unlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { apiVersion, type Kind } from "../../../src/api/names.ts";
import { resourceStatusSchema } from "../../../src/api/resource-status.ts";
import { unconfiguredSlot } from "../../../src/api/slot.ts";
import { upstreamSpecSchema } from "../../../src/api/upstream.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { describeSource, listen } from "../source-conformance.ts";
import { directories, noSweep, seeded, site, toml } from "./site.ts";

describeSource("YAML files", async () => {
  const env = await site({});
  const fileOf = (kind: Kind, name: string): string => env.at(`${directories[kind]}/${name}.yaml`);
  return {
    source: env.source,
    // In one turn: a half-written file is read as broken where the rest of it is late.
    put: async (kind, name, spec, labels) =>
      writeFileSync(
        fileOf(kind, name),
        JSON.stringify({ apiVersion, kind, metadata: { name, ...(labels && { labels }) }, spec }),
      ),
    remove: (kind, name) => unlink(fileOf(kind, name)),
    originOf: (kind, name) => ({ kind: "file", path: fileOf(kind, name) }),
    [Symbol.asyncDispose]: () => env[Symbol.asyncDispose](),
  };
});

/** A version of a directory, and a link that is moved to it by one rename. */
async function swap(target: string, link: string): Promise<void> {
  await symlink(target, `${link}-next`);
  await rename(`${link}-next`, link);
}

function manifest(name: string, model: string): string {
  return `---\napiVersion: ${apiVersion}\nkind: Slot\nmetadata:\n  name: ${name}\nspec:\n  model:\n    default: ${model}\n`;
}

const one = { "slots/a.toml": toml("one") };

describe("files of a configuration directory", { concurrency: true }, () => {
  it("makes no slot of another program's document, and says that it is there", async () => {
    const foreign = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n";
    await using env = await site({ ...one, "slots/kustomization.yaml": foreign });
    assert.deepEqual(env.names(), ["a"]);
    // A file that was written just now is read again first.
    const problem = await until("it is reported", () => env.source.problems()[0]);
    assert.deepEqual([problem.reason, problem.file], ["ForeignDocument", env.at("slots/kustomization.yaml")]);
    await rm(env.at("slots/kustomization.yaml"));
    await until("it is gone", () => env.reasons().length === 0);
  });

  it("reports changes at once in a directory that was made anew, also with the old directory's inode", async () => {
    await using env = await site({ ...one, "slots/b.toml": toml("one") }, noSweep);
    const slots = env.at("slots");
    const before = statSync(slots).ino;
    rmSync(slots, { recursive: true });
    const spares = Array.from({ length: 200 }, (_, index) => env.at(`spare-${index}`));
    const made = spares.find((spare) => {
      mkdirSync(spare);
      return statSync(spare).ino === before;
    });
    renameSync(made ?? env.at("spare-0"), slots);
    await until("it is seen empty", () => env.reasons().length > 0);
    // Events come in order: what they had to say so far has been looked at when this is seen.
    await writeFile(env.at("models/m.toml"), 'source = "/models/m.gguf"\n');
    await until("a later event is seen", () => env.source.get("Model", "m"));
    await writeFile(env.at("slots/a.toml"), toml("two"));
    await env.has("a", "two");
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
    await using env = await site({}, { ...noSweep, configDir: join(outside.path, "current") });
    assert.equal(env.model("a"), "v1");
    await swap("v2", join(outside.path, "current"));
    await env.has("a", "v2");
    assert.equal(env.model("b"), "one");
    await writeFile(join(outside.path, "far/b.toml"), toml("two"));
    await env.has("b", "two");
  });

  it("keeps what an earlier operator published until the files say otherwise", async () => {
    const moved = (kind: Kind, name: string): string => `/moved/config/${directories[kind]}/${name}.toml`;
    const resource = (kind: "Model" | "Upstream" | "SlotGroup", name: string, more: object) =>
      resourceStatusSchema.parse({
        kind,
        name,
        file: moved(kind, name),
        generation: 1,
        specHash: "h",
        conditions: [],
        ...more,
      });
    const upstreams = [{ name: "u", spec: upstreamSpecSchema.parse({ baseUrl: "https://u.test/v1" }) }];
    const resources = [
      resource("Model", "m", { model: { source: "file:///m.gguf" } }),
      resource("Upstream", "u", {}),
      resource("SlotGroup", "g", { group: { maxWaitSeconds: 7 } }),
    ];
    // As a slot is published whose manifest was never valid.
    const neverValid = { ...seeded("n"), specHash: "of its text", spec: unconfiguredSlot("n") };
    const broken = ["slots/a.toml", "slots/n.toml", "models/m.toml", "upstreams/u.toml", "groups/g.toml"];
    await using env = await site(
      { ...Object.fromEntries(broken.map((file) => [file, "broken"])), "slots/b.toml": toml("edited") },
      {
        seed: [...["a", "b", "c"].map(seeded), neverValid],
        seedRegistry: { schema: 1, models: [], upstreams, resources },
        isStopped: true,
        prepare: async (dir) => {
          for (const file of broken) await utimes(join(dir, file), 1, 1);
        },
      },
    );
    assert.equal(env.source.get("Model", "m")?.spec?.source, "file:///m.gguf");
    assert.equal(env.source.get("Upstream", "u")?.spec?.baseUrl, "https://u.test/v1");
    assert.equal(env.source.get("SlotGroup", "g")?.spec?.maxWaitSeconds, 7);
    assert.equal(env.source.get("Slot", "a")?.diagnostics.length, 1);
    assert.deepEqual(
      [env.source.get("Slot", "n")?.diagnostics.length, env.source.get("Slot", "n")?.spec],
      [1, undefined],
    );
    assert.deepEqual(["a", "b", "c"].map(env.model), ["seeded", "edited", "seeded"], "a removal waits");
    await env.pass(2000);
    assert.deepEqual(env.names(), ["a", "b", "n"]);
  });

  it("deletes nothing that was published when the directory is empty at start", async () => {
    await using env = await site({}, { seed: [seeded("a")], isStopped: true });
    await env.pass(60_000);
    assert.deepEqual([env.model("a"), env.reasons()], ["seeded", ["SourceEmpty"]]);
  });

  it("accepts a file that is saved again within two seconds of a removal", async () => {
    await using env = await site(one, { isStopped: true });
    using heard = listen(env.source);
    await unlink(env.at("slots/a.toml"));
    await env.pass(0);
    await env.pass(1999);
    assert.equal(env.model("a"), "one");
    await writeFile(env.at("slots/a.toml"), toml("one"));
    await env.pass(0);
    await env.pass(60_000);
    assert.equal(env.model("a"), "one");
    assert.deepEqual(heard.keys, []);
  });

  it("keeps a document that a half-written file lacks for two seconds", async () => {
    const files = { "slots/all.yaml": manifest("a", "m") + manifest("b", "m") };
    await using env = await site(files, { isStopped: true });
    assert.deepEqual(env.names(), ["a", "b"]);
    await writeFile(env.at("slots/all.yaml"), manifest("a", "m"));
    await env.pass(0);
    await env.pass(1999);
    assert.equal(env.model("b"), "m");
    await env.pass(1);
    assert.deepEqual(env.names(), ["a"]);
  });

  it("deletes nothing when several files vanish and none is left, until a file is there again", async () => {
    const files = { ...one, "slots/b.toml": toml("b"), "models/m.yaml": "source: file:///m.gguf\n" };
    await using env = await site(files, { isStopped: true });
    await Promise.all(["a", "b"].map((name) => unlink(env.at(`slots/${name}.toml`))));
    for (let look = 0; look < 3; look++) await env.pass(60_000);
    assert.deepEqual(env.names(), ["a", "b"]);
    const problems = env.source.problems().map(({ reason, file }) => [reason, file]);
    assert.deepEqual(problems, [["SourceEmpty", env.at("slots")]]);
    await writeFile(env.at("slots/b.toml"), toml("b"));
    await env.pass(0);
    assert.deepEqual([env.names(), env.reasons()], [["a", "b"], []], "the two seconds begin now");
    await env.pass(2000);
    assert.deepEqual(env.names(), ["b"]);
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
  ] as const)
    it(`deletes nothing when the directory is ${what}`, async () => {
      await using env = await site(one, { isStopped: true });
      await take(env.dir);
      for (let look = 0; look < 3; look++) await env.pass(60_000);
      assert.equal(env.model("a"), "one");
      assert.match(env.reasons()[0] ?? "", /^Source(Empty|Unreadable)$/);
    });

  it("takes no slot from an invalid name or from an entry that is not a file, and reports it until it is gone", async () => {
    const files = { ...one, "slots/With Space.toml": toml("w"), "slots/Broken.toml": "[model" };
    await using env = await site(files, {
      prepare: async (dir) => {
        await mkdir(join(dir, "slots/dir.toml"));
        await utimes(join(dir, "slots/Broken.toml"), 1, 1);
      },
    });
    const told = (): readonly string[] =>
      env.source.problems().map(({ reason, message }) => `${reason}: ${message.replaceAll(env.dir, "DIR")}`);
    const rule = "1 to 32 lower-case letters, digits and dashes";
    await until("all are read", () => told().length === 3);
    assert.deepEqual(told().toSorted(), [
      `InvalidName: DIR/slots/Broken.toml declares no slot: "Broken" is not a slot name: ${rule}`,
      `InvalidName: DIR/slots/With Space.toml declares no slot: "With Space" is not a slot name: ${rule}`,
      "NotAFile: DIR/slots/dir.toml is not a plain file and is not read",
    ]);
    assert.deepEqual(env.names(), ["a"]);
    await rename(env.at("slots/Broken.toml"), env.at("slots/b.txt"));
    await rename(env.at("slots/With Space.toml"), env.at("slots/c.toml"));
    await rm(env.at("slots/dir.toml"), { recursive: true });
    await until("it is mended", () => env.names().length === 2 && env.reasons().length === 0);
  });

  it("starts without a directory and sees it come", async () => {
    await using parent = await tempDir();
    const configDir = join(parent.path, "later");
    await using env = await site({}, { ...noSweep, configDir });
    assert.deepEqual(env.reasons(), ["SourceUnreadable"]);
    await mkdir(join(configDir, "slots"), { recursive: true });
    await writeFile(join(configDir, "slots/a.toml"), toml("one"));
    await env.has("a", "one");
    assert.deepEqual(env.reasons(), []);
  });

  it("treats a file as broken only once it stays empty, whatever its time says, and keeps its last spec", async () => {
    await using env = await site(one, { isStopped: true });
    using heard = listen(env.source);
    // In one turn, as ext4 shows a save that has just begun.
    writeFileSync(env.at("slots/a.toml"), "");
    utimesSync(env.at("slots/a.toml"), 0, 0);
    await env.pass(0);
    await env.pass(200);
    assert.deepEqual([env.source.get("Slot", "a")?.diagnostics, heard.keys], [[], []]);
    await env.pass(50);
    assert.deepEqual([env.source.get("Slot", "a")?.diagnostics.length, env.model("a")], [1, "one"]);
  });

  it("keeps the incumbent of two files, the first by path of two new ones, and hands over when it goes", async () => {
    // No time goes by: what is only removed after a while stays.
    const files = { "slots/b.yaml": manifest("x", "first"), "slots/c.yaml": manifest("x", "third") };
    await using env = await site(files, { isStopped: true });
    assert.equal(env.model("x"), "first");
    await unlink(env.at("slots/c.yaml"));
    await writeFile(env.at("slots/a.yaml"), manifest("x", "second"));
    const seen = await until("the duplicate", () => {
      const now = env.source.get("Slot", "x");
      return now?.diagnostics[0]?.file === env.at("slots/a.yaml") && now;
    });
    assert.equal(seen.spec?.model.default, "first");
    const { reason, line, column, message } = seen.diagnostics[0] ?? {};
    assert.deepEqual([reason, line, column], ["DuplicateResource", 5, 3]);
    assert.equal(
      message,
      "Slot x is already defined at slots/b.yaml:5:3, which stays in force; change or delete one of the two",
    );
    await unlink(env.at("slots/b.yaml"));
    await env.has("x", "second");
  });

  it("reads no manifest that is larger than 1 MiB, and takes it again once it is smaller", async () => {
    await using env = await site(one);
    // As sparse as a file can be: reading it would take all memory.
    for (const name of ["a.toml", "b.toml"]) {
      await using file = await openFile(env.at(`slots/${name}`), "a");
      await file.truncate(8 * 1024 ** 3);
    }
    await env.source.resync();
    const message = "cannot be read (it is larger than 1 MiB, the limit of such a file)";
    for (const name of ["a", "b"])
      assert.deepEqual(env.source.get("Slot", name)?.diagnostics, [
        { reason: "Unreadable", file: env.at(`slots/${name}.toml`), message },
      ]);
    assert.deepEqual(["a", "b"].map(env.model), ["one", undefined]);
    await writeFile(env.at("slots/a.toml"), `${toml("two")}# ${"x".repeat(1024 ** 2 - 64)}`);
    await env.source.resync();
    assert.deepEqual([env.model("a"), env.refusal("Slot", "a")], ["two", undefined]);
  });

  it("concludes nothing about removals while a file cannot be read", async () => {
    await using env = await site(one);
    // A loop of links cannot be read even by root.
    await symlink("loop.toml", env.at("slots/loop.toml"));
    await env.source.resync();
    assert.deepEqual(env.reasons(), ["SourceUnreadable"]);
    await unlink(env.at("slots/a.toml"));
    await env.source.resync();
    assert.equal(env.model("a"), "one");
    await unlink(env.at("slots/loop.toml"));
    await env.source.resync();
    assert.deepEqual(env.reasons(), []);
  });
});
