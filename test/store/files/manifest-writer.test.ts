import assert from "node:assert/strict";
import { chmod, lstat, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { openManifestWriter } from "../../../src/store/files/manifest-writer.ts";
import { removalRecorder } from "../../../src/store/state/removals.ts";
import { readManifests } from "../../../src/store/files/manifest.ts";
import type { ManifestWriter } from "../../../src/store/files/writer.ts";
import { tempDir } from "../../support/temp-dir.ts";

interface Site extends AsyncDisposable {
  readonly configDir: string;
  readonly stateDir: string;
  readonly writer: ManifestWriter;
  put(file: string, ...lines: string[]): Promise<void>;
  read(file: string): Promise<string>;
}

async function site(isReadOnly = false): Promise<Site> {
  const directory = await tempDir();
  const configDir = join(directory.path, "config");
  await mkdir(join(configDir, "slots"), { recursive: true });
  return {
    configDir,
    stateDir: join(directory.path, "state"),
    writer: openManifestWriter({ configDir, isReadOnly, removals: removalRecorder(join(directory.path, "state")) }),
    put: async (file, ...lines) => await writeFile(join(configDir, file), `${lines.join("\n")}\n`),
    read: async (file) => await readFile(join(configDir, file), "utf8"),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
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

const spec = { engine: "custom", command: ["run"], idleSeconds: 5 };

describe("a manifest writer", () => {
  it("writes over the declaration that a change was judged against, and over no other", async () => {
    await using at = await site();
    await at.put("slots/a.toml", 'engine = "custom"', 'command = ["run"]');
    const judged = await at.writer.source("Slot", "a");
    assert.partialDeepStrictEqual(judged?.spec, { runtime: "auto", command: ["run"] });
    const change = { spec, over: judged?.hash ?? "" };
    await at.put("slots/a.toml", 'engine = "custom"', 'command = ["other"]');
    const refused = { code: "config.changed", message: "slots/a.toml was changed meanwhile: nothing was written" };
    assert.partialDeepStrictEqual(await refusal(at.writer.replace("Slot", "a", change)), refused);
    await at.writer.remove("Slot", "a", { isKnown: true });
    assert.equal((await refusal(at.writer.replace("Slot", "a", change))).code, "config.changed");
    assert.equal(await at.writer.source("Slot", "a"), undefined);
  });

  it("names a manifest that cannot be read, and writes the others all the same", async () => {
    await using at = await site();
    // A read at its beginning fails, of root too.
    await symlink("/proc/self/mem", join(at.configDir, "slots", "a.toml"));
    await at.put("slots/b.toml", 'engine = "custom"', 'command = ["run"]');
    await at.writer.set("Slot", "b", ["port"], 8085);
    assert.match(await at.read("slots/b.toml"), /port = 8085/);
    await at.writer.create("Slot", "c", { spec });
    assert.match((await at.writer.source("Slot", "c"))?.text ?? "", /idle_seconds = 5/);
    assert.deepEqual(await refusal(at.writer.set("Slot", "a", ["port"], 8086)), {
      code: "config.read_only",
      message: "slots/a.toml cannot be read (EIO): let the user of Berth read it",
      details: undefined,
    });
  });

  it("neither makes nor edits a manifest that is too large to be read", async () => {
    await using at = await site();
    const large = { ...spec, env: { KEY: "x".repeat(1024 ** 2) } };
    const message = "slots/a.toml: would be larger than 1 MiB, the limit of a manifest";
    const create = at.writer.create("Slot", "a", { spec: large });
    assert.deepEqual((await refusal(create)).message, message);
    await at.put("slots/a.toml", 'engine = "custom"', 'command = ["run"]');
    assert.deepEqual((await refusal(at.writer.replace("Slot", "a", { spec: large }))).message, message);
    await at.put("slots/a.toml", `# ${"x".repeat(1024 ** 2)}`);
    const { code, message: told } = await refusal(at.writer.replace("Slot", "a", { spec }));
    assert.deepEqual([code, told], ["config.invalid", "slots/a.toml is too large for a manifest: change it by hand"]);
    // Others are not concerned.
    await at.writer.create("Slot", "b", { spec });
    assert.equal(await at.writer.replace("Slot", "b", { spec: { ...spec, idleSeconds: 6 } }), "changed");
  });

  it("creates a file with the given values, once", async () => {
    await using at = await site();
    const file = await at.writer.create("Slot", "a", {
      spec: { ...spec, model: { default: "m" }, mounts: [{ source: "/x", target: "/y" }], env: { A: "1" } },
      labels: { team: "x" },
    });
    assert.equal(file, join(at.configDir, "slots/a.toml"));
    assert.equal(
      await at.read("slots/a.toml"),
      [
        'engine = "custom"',
        'command = ["run"]',
        "idle_seconds = 5",
        "",
        "[model]",
        'default = "m"',
        "",
        "[[mounts]]",
        'source = "/x"',
        'target = "/y"',
        "",
        "[env]",
        'A = "1"',
        "",
        "[labels]",
        'team = "x"',
        "",
      ].join("\n"),
    );
    assert.equal((await refusal(at.writer.create("Slot", "a", { spec }))).code, "slot.already_exists");
    await at.put(
      "slots/other.yaml",
      "apiVersion: berth.dev/v1alpha1",
      "kind: Slot",
      "metadata: {name: b}",
      "spec: {enabled: false}",
    );
    assert.equal((await refusal(at.writer.create("Slot", "b", { spec }))).code, "slot.already_exists");
  });

  it("makes directories that are missing, and writes YAML where TOML has no word", async () => {
    await using directory = await tempDir();
    const configDir = join(directory.path, "not/yet");
    const writer = openManifestWriter({ configDir, isReadOnly: false, removals: removalRecorder(directory.path) });
    assert.equal(await writer.readOnlyReason(), undefined);
    await writer.create("Slot", "a", { spec: { ...spec, request: { set: { stop: null } } } });
    const text = await readFile(join(configDir, "slots/a.yaml"), "utf8");
    assert.match(text, /stop: null/);
    await writer.replace("Upstream", "cloud", { spec: { baseUrl: "https://x.example/v1", models: [{ ref: "a" }] } });
    assert.deepEqual((await readdir(configDir)).toSorted(), ["slots", "upstreams"]);
  });

  it("replaces changed fields, adds new ones and reports when there is nothing to do", async () => {
    await using at = await site();
    await at.put("slots/a.yaml", "# ours", "model:", "  default: m # small", "idleSeconds: 5");
    assert.equal(
      await at.writer.replace("Slot", "a", { spec: { model: { default: "m" }, idleSeconds: 5 } }),
      "unchanged",
    );
    assert.equal(
      await at.writer.replace("Slot", "a", { spec: { model: { default: "other" }, pinned: false } }),
      "changed",
    );
    assert.equal(await at.read("slots/a.yaml"), "# ours\nmodel:\n  default: other # small\npinned: false\n");
    assert.equal(
      await at.writer.replace("Slot", "a", { spec: { model: { default: "other" } }, labels: { t: "x" } }),
      "changed",
    );
    assert.equal(await at.read("slots/a.yaml"), "# ours\nmodel:\n  default: other # small\nlabels:\n  t: x\n");
    assert.equal(await at.writer.replace("Slot", "new", { spec }), "created");
  });

  it("edits one of several documents, and removes only that document", async () => {
    await using at = await site();
    const one = (name: string): string[] => [
      "apiVersion: berth.dev/v1alpha1",
      "kind: Slot",
      `metadata: {name: ${name}}`,
      "spec:",
      "  model: {default: m} # its own",
    ];
    await at.put("slots/all.yaml", ...one("a"), "---", ...one("b"));
    await at.writer.set("Slot", "b", ["model", "default"], "other");
    const [, changed] = (await at.read("slots/all.yaml")).split("---");
    assert.equal(changed, `\n${one("b").join("\n").replace("default: m", "default: other")}\n`);
    assert.equal(await at.writer.remove("Slot", "a", { isKnown: true }), true);
    assert.equal(await at.read("slots/all.yaml"), `${one("b").join("\n").replace("default: m", "default: other")}\n`);
    assert.equal(await at.writer.remove("Slot", "b", { isKnown: true }), true);
    await assert.rejects(at.read("slots/all.yaml"), { code: "ENOENT" });
  });

  it("removes no document whose neighbours would be read otherwise without it", async () => {
    await using at = await site();
    const one = (name: string, model: string): string[] => [
      "apiVersion: berth.dev/v1alpha1",
      "kind: Slot",
      `metadata: {name: ${name}}`,
      `spec: {model: ${model}}`,
    ];
    await at.put("slots/all.yaml", ...one("a", "{default: m}"), "---", "{}", "---", ...one("b", "{default: m}"));
    const { code, message } = await refusal(at.writer.remove("Slot", "b", { isKnown: true }));
    assert.equal(code, "config.read_only");
    assert.equal(message, "slots/all.yaml declares more than b: remove it there");
  });

  it("removes a file with a single declaration", async () => {
    await using at = await site();
    await at.put("slots/a.toml", "enabled = false");
    assert.equal(await at.writer.remove("Slot", "a", { isKnown: false }), true);
    assert.equal(await at.writer.remove("Slot", "a", { isKnown: false }), false);
    assert.deepEqual(await readdir(join(at.configDir, "slots")), []);
  });

  it("never writes what would be invalid, and says where", async () => {
    await using at = await site();
    await at.put("slots/a.toml", "# ours", "[model]", 'default = "m"');
    const before = await at.read("slots/a.toml");
    assert.deepEqual(await refusal(at.writer.set("Slot", "a", ["model", "parallel"], 0)), {
      code: "config.invalid",
      message: "slots/a.toml:4:1: must be at least 1",
      details: {
        file: "slots/a.toml",
        line: 4,
        column: 1,
        path: ["model", "parallel"],
        message: "must be at least 1",
      },
    });
    const { code, details } = await refusal(
      at.writer.replace("Slot", "a", { spec: { model: { default: "m" }, request: { set: { a: null } } } }),
    );
    assert.equal(code, "config.invalid");
    assert.deepEqual(details, {
      file: "slots/a.toml",
      line: null,
      column: null,
      path: ["request", "set", "a"],
      message: "TOML has no null: use a YAML manifest",
    });
    assert.equal((await refusal(at.writer.create("Slot", "b", { spec: { engine: "steam" } }))).code, "config.invalid");
    assert.equal((await refusal(at.writer.set("Slot", "nobody", ["group"], "x"))).code, "slot.not_found");
    assert.equal(await at.read("slots/a.toml"), before);
    assert.deepEqual(await readdir(join(at.configDir, "slots")), ["a.toml"]);
  });

  it("leaves a file alone that does not parse, or that shares values", async () => {
    await using at = await site();
    await at.put("slots/a.toml", "[model]", "default = = 1");
    const broken = await refusal(at.writer.replace("Slot", "a", { spec }));
    assert.equal(broken.code, "config.invalid");
    assert.match(broken.message, /^slots\/a\.toml:2:\d+: /);
    await at.put("slots/b.yaml", "group: &g x", "model: {default: *g}");
    const shared = await refusal(at.writer.set("Slot", "b", ["group"], "y"));
    assert.equal(shared.message, "slots/b.yaml: it is written in a way that cannot be edited here: change it by hand");
    assert.equal(await at.read("slots/b.yaml"), "group: &g x\nmodel: {default: *g}\n");
  });

  it("mends an invalid spec", async () => {
    await using at = await site();
    await at.put("slots/a.yaml", "# ours", "modle: {default: m}", "enabled: false");
    assert.equal(await at.writer.replace("Slot", "a", { spec: { enabled: false } }), "changed");
    assert.equal(await at.read("slots/a.yaml"), "# ours\nenabled: false\n");
  });

  it("writes nothing where the configuration is read-only", async () => {
    await using fixed = await site(true);
    assert.equal(await fixed.writer.readOnlyReason(), "read_only is set");
    await using marked = await site();
    await marked.put(".berth-read-only");
    assert.equal(await marked.writer.readOnlyReason(), ".berth-read-only is there");
    for (const { writer, configDir } of [fixed, marked]) {
      for (const task of [
        () => writer.create("Slot", "a", { spec }),
        () => writer.replace("Slot", "a", { spec }),
        () => writer.set("Slot", "a", ["group"], "x"),
        () => writer.remove("Slot", "a", { isKnown: true }),
      ]) {
        assert.equal((await refusal(task())).code, "config.read_only");
      }
      assert.deepEqual(await readdir(join(configDir, "slots")), []);
    }
  });

  it("writes nothing where there is no directory to write in", async () => {
    await using directory = await tempDir();
    await writeFile(join(directory.path, "file"), "");
    for (const configDir of ["file", "file/below"]) {
      const writer = openManifestWriter({
        configDir: join(directory.path, configDir),
        isReadOnly: false,
        removals: removalRecorder(directory.path),
      });
      assert.equal(await writer.readOnlyReason(), "the directory is not writable");
      assert.equal((await refusal(writer.create("Slot", "a", { spec }))).code, "config.read_only");
    }
    // The directory of the kind may be another's alone.
    await using at = await site();
    await writeFile(join(at.configDir, "upstreams"), "");
    const upstream = { spec: { baseUrl: "https://x.example/v1", models: [{ ref: "a" }] } };
    assert.equal((await refusal(at.writer.create("Upstream", "a", upstream))).code, "config.read_only");
    if (process.getuid?.() !== 0) {
      await chmod(join(at.configDir, "slots"), 0o555);
      assert.equal((await refusal(at.writer.create("Slot", "a", { spec }))).code, "config.read_only");
    }
  });

  it("writes through a link, which stays a link, and keeps the file's mode", async () => {
    await using at = await site();
    await at.put("real.toml", "[model]", 'default = "m"');
    await chmod(join(at.configDir, "real.toml"), 0o640);
    await symlink("../real.toml", join(at.configDir, "slots/a.toml"));
    await at.writer.set("Slot", "a", ["model", "default"], "other");
    assert.equal(await at.read("real.toml"), '[model]\ndefault = "other"\n');
    assert.ok((await lstat(join(at.configDir, "slots/a.toml"))).isSymbolicLink());
    assert.equal((await stat(join(at.configDir, "real.toml"))).mode & 0o777, 0o640);
  });

  it("keeps each of many concurrent writes, also of two writers", async () => {
    await using at = await site();
    await at.put("slots/a.toml", "enabled = false", "[model]", 'default = "m"');
    const second = openManifestWriter({
      configDir: at.configDir,
      isReadOnly: false,
      removals: removalRecorder(at.stateDir),
    });
    await Promise.all(Array.from({ length: 20 }, (_, n) => at.writer.set("Slot", "a", ["env", `KEY_${n}`], String(n))));
    await Promise.all([
      ...Array.from({ length: 5 }, (_, n) => at.writer.create("Slot", `b${n}`, { spec })),
      ...Array.from({ length: 5 }, (_, n) => second.create("Slot", `c${n}`, { spec })),
    ]);
    const [declared] = readManifests("a.toml", await at.read("slots/a.toml"));
    assert.ok(declared?.spec !== undefined && "env" in declared.spec);
    assert.equal(Object.keys(declared.spec.env).length, 20);
    assert.equal((await readdir(join(at.configDir, "slots"))).length, 11);
  });
});
