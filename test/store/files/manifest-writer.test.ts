import assert from "node:assert/strict";
import { chmod, lstat, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { openManifestWriter } from "../../../src/store/files/manifest-writer.ts";
import { readManifests } from "../../../src/store/files/manifest.ts";
import type { ManifestWriter } from "../../../src/store/files/writer.ts";
import { removalRecorder } from "../../../src/store/state/removals.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { directoryWith, type Files } from "./site.ts";

function writerOf(configDir: string, isReadOnly = false): ManifestWriter {
  return openManifestWriter({ configDir, isReadOnly, removals: removalRecorder(join(configDir, "state")) });
}

/** A configuration directory with these manifests, and its writer. */
async function scene(files: Files = {}, isReadOnly = false) {
  const { path: configDir, ...directory } = await directoryWith(files);
  return {
    configDir,
    writer: writerOf(configDir, isReadOnly),
    put: async (file: string, text: string) => await writeFile(join(configDir, file), text),
    read: async (file: string) => await readFile(join(configDir, file), "utf8"),
    slots: async () => (await readdir(join(configDir, "slots"))).toSorted(),
    ...directory,
  };
}

/** The refusal as a client gets it. */
async function refusal(task: Promise<unknown>): Promise<{ code: string; message: string; details: unknown }> {
  const error: unknown = await task.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ApiError, `not refused: ${String(error)}`);
  return { code: error.code, message: error.message, details: error.details };
}

async function refuses(task: Promise<unknown>, code: string, message?: string): Promise<void> {
  const found = await refusal(task);
  assert.deepEqual([found.code, message === undefined ? undefined : found.message], [code, message]);
}

const spec = { engine: "custom", command: ["run"], idleSeconds: 5 };
const custom = 'engine = "custom"\ncommand = ["run"]\n';
const slot = (name: string, of: string): string =>
  `apiVersion: berth.dev/v1alpha1\nkind: Slot\nmetadata: {name: ${name}}\nspec: ${of}\n`;

describe("a manifest writer", { concurrency: true }, () => {
  it("writes over the declaration that a change was judged against, and over no other", async () => {
    await using at = await scene({ "slots/a.toml": custom });
    const judged = await at.writer.source("Slot", "a");
    assert.partialDeepStrictEqual(judged?.spec, { runtime: "auto", command: ["run"] });
    const change = { spec, over: judged?.hash ?? "" };
    await at.put("slots/a.toml", 'engine = "custom"\ncommand = ["other"]\n');
    const changed = "slots/a.toml was changed meanwhile: nothing was written";
    await refuses(at.writer.replace("Slot", "a", change), "config.changed", changed);
    await at.writer.remove("Slot", "a", { isKnown: true });
    await refuses(at.writer.replace("Slot", "a", change), "config.changed");
    assert.equal(await at.writer.source("Slot", "a"), undefined);
  });

  it("names a manifest that cannot be read, and writes the others all the same", async () => {
    await using at = await scene({ "slots/b.toml": custom });
    // A read at its beginning fails, of root too.
    await symlink("/proc/self/mem", join(at.configDir, "slots", "a.toml"));
    await at.writer.set("Slot", "b", ["port"], 8085);
    assert.match(await at.read("slots/b.toml"), /port = 8085/);
    await at.writer.create("Slot", "c", { spec });
    assert.match((await at.writer.source("Slot", "c"))?.text ?? "", /idle_seconds = 5/);
    const unread = "slots/a.toml cannot be read (EIO): let the user of Berth read it";
    await refuses(at.writer.set("Slot", "a", ["port"], 8086), "config.read_only", unread);
  });

  it("neither makes nor edits a manifest that is too large to be read", async () => {
    await using at = await scene();
    const large = { ...spec, env: { KEY: "x".repeat(1024 ** 2) } };
    const message = "slots/a.toml: would be larger than 1 MiB, the limit of a manifest";
    await refuses(at.writer.create("Slot", "a", { spec: large }), "config.invalid", message);
    await at.put("slots/a.toml", custom);
    await refuses(at.writer.replace("Slot", "a", { spec: large }), "config.invalid", message);
    await at.put("slots/a.toml", `# ${"x".repeat(1024 ** 2)}`);
    const tooLarge = "slots/a.toml is too large for a manifest: change it by hand";
    await refuses(at.writer.replace("Slot", "a", { spec }), "config.invalid", tooLarge);
    // Others are not concerned.
    await at.writer.create("Slot", "b", { spec });
    const changed = await at.writer.replace("Slot", "b", { spec: { ...spec, idleSeconds: 6 } });
    assert.equal(changed.outcome, "changed");
  });

  it("creates a file with the given values, once", async () => {
    await using at = await scene({ "slots/other.yaml": slot("b", "{enabled: false}") });
    const all = { ...spec, model: { default: "m" }, mounts: [{ source: "/x", target: "/y" }], env: { A: "1" } };
    const { outcome, specHash } = await at.writer.create("Slot", "a", { spec: all, labels: { team: "x" } });
    assert.equal(outcome, "created");
    assert.equal(specHash, await at.writer.specHash("Slot", "a"));
    assert.equal(
      await at.read("slots/a.toml"),
      `${custom}idle_seconds = 5

[model]
default = "m"

[[mounts]]
source = "/x"
target = "/y"

[env]
A = "1"

[labels]
team = "x"
`,
    );
    for (const name of ["a", "b"]) await refuses(at.writer.create("Slot", name, { spec }), "slot.already_exists");
  });

  it("makes directories that are missing, and writes YAML where TOML has no word", async () => {
    await using directory = await tempDir();
    const configDir = join(directory.path, "not/yet");
    const writer = writerOf(configDir);
    assert.equal(await writer.readOnlyReason(), undefined);
    await writer.create("Slot", "a", { spec: { ...spec, request: { set: { stop: null } } } });
    assert.match(await readFile(join(configDir, "slots/a.yaml"), "utf8"), /stop: null/);
    await writer.replace("Upstream", "cloud", { spec: { baseUrl: "https://x.example/v1", models: [{ ref: "a" }] } });
    assert.deepEqual((await readdir(configDir)).filter((name) => name !== "state").toSorted(), ["slots", "upstreams"]);
  });

  it("replaces changed fields, adds new ones and reports when there is nothing to do", async () => {
    await using at = await scene({ "slots/a.yaml": "# ours\nmodel:\n  default: m # small\nidleSeconds: 5\n" });
    const other = { model: { default: "other" } };
    for (const [change, outcome, text] of [
      [{ spec: { model: { default: "m" }, idleSeconds: 5 } }, "unchanged", "default: m # small\nidleSeconds: 5"],
      [{ spec: { ...other, pinned: false } }, "changed", "default: other # small\npinned: false"],
      [{ spec: other, labels: { t: "x" } }, "changed", "default: other # small\nlabels:\n  t: x"],
    ] as const) {
      assert.equal((await at.writer.replace("Slot", "a", change)).outcome, outcome);
      assert.equal(await at.read("slots/a.yaml"), `# ours\nmodel:\n  ${text}\n`);
    }
    assert.equal((await at.writer.replace("Slot", "new", { spec })).outcome, "created");
  });

  it("edits one of several documents, and removes only that document", async () => {
    const one = (name: string): string => slot(name, "{model: {default: m}} # its own");
    await using at = await scene({ "slots/all.yaml": `${one("a")}---\n${one("b")}` });
    await at.writer.set("Slot", "b", ["model", "default"], "other");
    const edited = one("b").replace("default: m", "default: other");
    assert.equal(await at.read("slots/all.yaml"), `${one("a")}---\n${edited}`);
    assert.equal(await at.writer.remove("Slot", "a", { isKnown: true }), true);
    assert.equal(await at.read("slots/all.yaml"), edited);
    assert.equal(await at.writer.remove("Slot", "b", { isKnown: true }), true);
    assert.equal(await at.writer.remove("Slot", "b", { isKnown: false }), false);
    assert.deepEqual(await at.slots(), []);
  });

  it("removes no document whose neighbours would be read otherwise without it", async () => {
    const text = `${slot("a", "{model: {default: m}}")}---\n{}\n---\n${slot("b", "{model: {default: m}}")}`;
    await using at = await scene({ "slots/all.yaml": text });
    const message = "slots/all.yaml declares more than b: remove it there";
    await refuses(at.writer.remove("Slot", "b", { isKnown: true }), "config.read_only", message);
  });

  it("never writes what would be invalid, and says where", async () => {
    const before = '# ours\n[model]\ndefault = "m"\n';
    await using at = await scene({ "slots/a.toml": before });
    const file = "slots/a.toml";
    assert.deepEqual(await refusal(at.writer.set("Slot", "a", ["model", "parallel"], 0)), {
      code: "config.invalid",
      message: "slots/a.toml:4:1: must be at least 1",
      details: { file, line: 4, column: 1, path: ["model", "parallel"], message: "must be at least 1" },
    });
    const withNull = { model: { default: "m" }, request: { set: { a: null } } };
    const { code, details } = await refusal(at.writer.replace("Slot", "a", { spec: withNull }));
    assert.equal(code, "config.invalid");
    const message = "TOML has no null: use a YAML manifest";
    assert.deepEqual(details, { file, line: null, column: null, path: ["request", "set", "a"], message });
    await refuses(at.writer.create("Slot", "b", { spec: { engine: "steam" } }), "config.invalid");
    await refuses(at.writer.set("Slot", "nobody", ["group"], "x"), "slot.not_found");
    assert.deepEqual([await at.read(file), await at.slots()], [before, ["a.toml"]]);
  });

  it("leaves a file alone that does not parse, or that shares values", async () => {
    const shared = "group: &g x\nmodel: {default: *g}\n";
    await using at = await scene({ "slots/a.toml": "[model]\ndefault = = 1\n", "slots/b.yaml": shared });
    const broken = await refusal(at.writer.replace("Slot", "a", { spec }));
    assert.equal(broken.code, "config.invalid");
    assert.match(broken.message, /^slots\/a\.toml:2:\d+: /);
    const message = "slots/b.yaml: it is written in a way that cannot be edited here: change it by hand";
    await refuses(at.writer.set("Slot", "b", ["group"], "y"), "config.invalid", message);
    assert.equal(await at.read("slots/b.yaml"), shared);
  });

  for (const [reason, files, isReadOnly] of [
    ["read_only is set", {}, true],
    [".berth-read-only is there", { ".berth-read-only": "" }, false],
  ] as const)
    it(`writes nothing where ${reason}`, async () => {
      await using at = await scene(files, isReadOnly);
      assert.equal(await at.writer.readOnlyReason(), reason);
      for (const task of [
        () => at.writer.create("Slot", "a", { spec }),
        () => at.writer.replace("Slot", "a", { spec }),
        () => at.writer.set("Slot", "a", ["group"], "x"),
        () => at.writer.remove("Slot", "a", { isKnown: true }),
      ])
        await refuses(task(), "config.read_only");
      assert.deepEqual(await at.slots(), []);
    });

  it("writes nothing where there is no directory to write in", async () => {
    await using directory = await tempDir();
    await writeFile(join(directory.path, "file"), "");
    for (const path of ["file", "file/below"]) {
      const writer = writerOf(join(directory.path, path));
      assert.equal(await writer.readOnlyReason(), "the directory is not writable");
      await refuses(writer.create("Slot", "a", { spec }), "config.read_only");
    }
    // The directory of the kind may be another's alone.
    await mkdir(join(directory.path, "config"));
    await writeFile(join(directory.path, "config/slots"), "");
    await refuses(writerOf(join(directory.path, "config")).create("Slot", "a", { spec }), "config.read_only");
    if (process.getuid?.() === 0) return;
    await using at = await scene();
    await chmod(join(at.configDir, "slots"), 0o555);
    await refuses(at.writer.create("Slot", "a", { spec }), "config.read_only");
  });

  it("writes through a link, which stays a link, and keeps the file's mode", async () => {
    await using at = await scene({ "real.toml": '[model]\ndefault = "m"\n' });
    await chmod(join(at.configDir, "real.toml"), 0o640);
    await symlink("../real.toml", join(at.configDir, "slots/a.toml"));
    await at.writer.set("Slot", "a", ["model", "default"], "other");
    assert.equal(await at.read("real.toml"), '[model]\ndefault = "other"\n');
    assert.ok((await lstat(join(at.configDir, "slots/a.toml"))).isSymbolicLink());
    assert.equal((await stat(join(at.configDir, "real.toml"))).mode & 0o777, 0o640);
  });

  it("keeps each of many concurrent writes, also of two writers", async () => {
    await using at = await scene({ "slots/a.toml": 'enabled = false\n[model]\ndefault = "m"\n' });
    const second = writerOf(at.configDir);
    const numbers = Array.from({ length: 10 }, (_, n) => n);
    await Promise.all([
      ...numbers.map((n) => at.writer.set("Slot", "a", ["env", `KEY_${n}`], String(n))),
      ...numbers.map((n) => (n % 2 === 0 ? at.writer : second).create("Slot", `b${n}`, { spec })),
    ]);
    const [declared] = readManifests("a.toml", await at.read("slots/a.toml"));
    assert.ok(declared?.spec !== undefined && "env" in declared.spec);
    assert.deepEqual([Object.keys(declared.spec.env).length, (await at.slots()).length], [10, 11]);
  });
});
