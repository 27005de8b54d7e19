import assert from "node:assert/strict";
import { appendFile, chmod, chown, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { describe, it } from "node:test";
import { runCommandLine } from "../../../src/main/command-line.ts";
import { noOtherUser, otherUser } from "../../support/other-user.ts";
import { berthProcess } from "../../support/command.ts";
import { importSite } from "./site.ts";

const theirs = (context: number): string =>
  `models:\n  coder: { cmd: "llama-server --port \${PORT} -m coder.gguf -c ${context}", aliases: [gpt-4o] }\n`;

async function swapSite(files: Readonly<Record<string, string>> = {}) {
  const site = await importSite(files);
  const file = join(site.path, "models/swap.yaml");
  await mkdir(join(site.path, "models"));
  await writeFile(join(site.path, "models/coder.gguf"), "");
  await writeFile(file, theirs(4096));
  return {
    ...site,
    file,
    slot: join(site.configDir, "slots/coder.yaml"),
    run: (line = "") => site.import(`llama-swap ${file}${line}`),
    [Symbol.asyncDispose]: () => site[Symbol.asyncDispose](),
  };
}

const relative =
  "  DIR/models/swap.yaml:2: models.coder.cmd coder.gguf: a relative path: taken as DIR/models/coder.gguf\n";
const lost = `Not carried, or not quite:\n${relative}`;
const unsigned = (text: string): string => text.replaceAll(/Checksum: [0-9a-f]{12}/g, "Checksum: SUM");

describe("berth config import", () => {
  it("shows the manifests as a diff and writes nothing where nobody agrees", async () => {
    await using site = await swapSite();
    const { code, stdout } = await site.run();
    assert.equal(
      unsigned(stdout),
      `--- /dev/null
+++ slots/coder.yaml
@@ -0,0 +1,8 @@
+# Imported from DIR/models/swap.yaml by berth config import. Checksum: SUM
+load: onDemand
+idleSeconds: 0
+aliases:
+  - gpt-4o
+model:
+  default: coder
+  contextSize: 4096
${lost}nothing was written; --yes writes 1 file to DIR/config
`,
    );
    assert.deepEqual([code, await site.manifests()], [1, {}]);
  });

  it("writes with --yes what a service takes, and has nothing to do the second time", async () => {
    await using site = await swapSite();
    const { code, stdout } = await site.run(" --yes");
    assert.deepEqual([code, stdout.slice(stdout.indexOf("wrote"))], [0, "wrote 1 file to DIR/config\n"]);
    assert.deepEqual(await site.config("validate CONFIG", site.env), {
      code: 0,
      stdout: "DIR/config: valid\n",
      stderr: "",
    });
    assert.deepEqual(await site.run(" --yes").then((again) => [again.code, again.stdout]), [
      0,
      `${lost}DIR/config: nothing to do\n`,
    ]);
  });

  it("shows only what has changed there since, and replaces its own manifests", async () => {
    await using site = await swapSite();
    await site.run(" --yes");
    await writeFile(site.file, theirs(8192));
    const { stdout } = await site.run(" --yes");
    assert.equal(
      unsigned(stdout),
      `--- slots/coder.yaml
+++ slots/coder.yaml
@@ -1,1 +1,1 @@
-# Imported from DIR/models/swap.yaml by berth config import. Checksum: SUM
+# Imported from DIR/models/swap.yaml by berth config import. Checksum: SUM
@@ -8,1 +8,1 @@
-  contextSize: 4096
+  contextSize: 8192
${lost}wrote 1 file to DIR/config
`,
    );
  });

  it("keeps a manifest that a person changed, until --force", async () => {
    await using site = await swapSite();
    await site.run(" --yes");
    await appendFile(site.slot, "pinned: false # mine\n");
    const kept = await site.run(" --yes");
    assert.deepEqual(
      [kept.code, kept.stdout],
      [
        0,
        `${lost}Kept:\n  slots/coder.yaml: a person wrote or changed it, and it stays; --force replaces it\nDIR/config: nothing to do\n`,
      ],
    );
    assert.match(await readFile(site.slot, "utf8"), /# mine/);
    const { stdout } = await site.run(" --yes --force");
    assert.match(
      stdout,
      /^--- slots\/coder\.yaml\n\+\+\+ slots\/coder\.yaml\n@@ -9,1 \+8,0 @@\n-pinned: false # mine\n/,
    );
    assert.doesNotMatch(await readFile(site.slot, "utf8"), /# mine/);
  });

  it("declares nothing twice, and takes no alias that another slot has", async () => {
    await using site = await swapSite({ "slots/all.toml": 'aliases = ["gpt-4o"]\n[model]\ndefault = "m"\n' });
    const { stdout } = await site.run(" --yes");
    assert.match(
      stdout,
      /swap\.yaml:2: the name gpt-4o: it is a name of a slot in slots\/all\.toml; clients call this one coder\n/,
    );
    await using other = await swapSite({ "slots/coder.toml": '[model]\ndefault = "m"\n' });
    const elsewhere = await other.run(" --yes --force");
    assert.match(
      elsewhere.stdout,
      /Kept:\n {2}slots\/coder\.yaml: Slot coder is declared in slots\/coder\.toml, which stays; remove it there to import it\n/,
    );
    assert.deepEqual(await other.manifests(), {});
  });

  it("writes into another directory, where berth.toml names the models", async () => {
    await using site = await swapSite();
    const dir = join(site.path, "git");
    await mkdir(dir);
    await writeFile(join(dir, "berth.toml"), `models_dir = "${site.path}/other"\n`);
    const { stdout } = await site.config(`import llama-swap ${site.file} --dir ${dir} --yes`);
    assert.match(stdout, /\+\+\+ models\/coder\.yaml\n.*\n.*\n\+source: file:\/\/DIR\/models\/coder\.gguf\n/);
    assert.match(stdout, /wrote 2 files to DIR\/git\n$/);
  });

  it("asks on the terminal of the command, and writes after a yes alone", async () => {
    await using site = await swapSite();
    const env = {
      ...site.env,
      HOME: site.path,
      SVC_CONFIG_DIR: site.configDir,
      SVC_STATE_DIR: join(site.path, "state"),
    };
    for (const [typed, code, files] of [
      ["n\n", 1, []],
      ["y\n", 0, ["slots/coder.yaml"]],
    ] as const) {
      let said = "";
      const screen = new Writable({
        write(chunk, _encoding, done) {
          said += String(chunk);
          done();
        },
      });
      const input = Object.assign(Readable.from([Buffer.from(typed)], { objectMode: false }), { isTTY: true });
      const context = {
        env,
        input: () => input,
        output: screen,
        screen,
        write: () => undefined,
        note: () => undefined,
      };
      assert.equal(await runCommandLine(["config", "import", "llama-swap", site.file], context), code);
      assert.equal(said, `Write 1 file to ${site.configDir}? [y/N] `);
      assert.deepEqual(Object.keys(await site.manifests()), files);
    }
  });

  for (const [what, text, message] of [
    [
      "broken YAML, of which it prints nothing",
      'models:\n  a: "sk-secret\n',
      'import.unreadable: DIR/models/swap.yaml:3:1: it is no valid YAML or JSON: Missing closing "quote',
    ],
    [
      "a file that is something else",
      "services: {}\n",
      "import.unreadable: DIR/models/swap.yaml:1: it is no configuration of llama-swap: it has no map 'models'",
    ],
    ["an empty file", "", "import.unreadable: DIR/models/swap.yaml: the file is empty"],
    ["a list", "- a\n", "import.unreadable: DIR/models/swap.yaml:1: it is no map of fields"],
    [
      "a huge file",
      `# ${"x".repeat(1024 ** 2)}\n`,
      "import.unreadable: DIR/models/swap.yaml: it is larger than 1 MiB, the limit of such a file",
    ],
    [
      "a file without a model",
      "models: {}\n",
      "import.empty: DIR/models/swap.yaml: it has no model that can be carried",
    ],
    [
      "two models of one name",
      "models:\n  a: { cmd: x }\n  a: { cmd: y }\n",
      "import.unreadable: DIR/models/swap.yaml:3:3: it is no valid YAML or JSON: Map keys must be unique",
    ],
  ] as const)
    it(`refuses ${what}`, async () => {
      await using site = await swapSite();
      await writeFile(site.file, text);
      const { code, stdout, stderr } = await site.run(" --yes");
      assert.deepEqual({ code, stdout, stderr }, { code: 1, stdout: "", stderr: `${message}\nnothing was written\n` });
      assert.deepEqual(await site.manifests(), {});
    });

  it("refuses a missing file, and a source without a name", async () => {
    await using site = await swapSite();
    const missing = await site.import("llama-swap none.yaml");
    assert.match(
      missing.stderr,
      /^import\.unreadable: .*\/none\.yaml: it is not there\nname another file, or run this as a user who may read it\n$/,
    );
    const unnamed = await site.import("compose");
    assert.deepEqual(
      [unnamed.code, unnamed.stderr],
      [2, "usage: name the file or directory of compose\nsee `berth config import --help`\n"],
    );
    for (const line of ["kobold x", "ollama ", `llama-swap ${site.file} --dir `])
      assert.equal((await site.import(line)).code, 2, line);
  });

  it("says which flags this machine's llama-server does not know", async () => {
    await using site = await swapSite();
    const server = join(site.path, "server");
    await writeFile(server, "#!/bin/sh\necho '-c, --ctx-size N --no-warmup'\n", { mode: 0o755 });
    await writeFile(
      site.file,
      'models:\n  a: { cmd: "llama-server --port ${PORT} -m coder.gguf --no-warmup --no-mmap --temp -1" }\n',
    );
    const { left } = await site.import(`llama-swap ${site.file}`, { SVC_LLAMA_SERVER: server });
    const says = (flag: string): string =>
      `DIR/models/swap.yaml:2: a ${flag}: DIR/server knows no such flag and would not start: remove it from args, or name another program in SVC_LLAMA_SERVER`;
    assert.deepEqual(left.slice(1), [says("--no-mmap"), says("--temp")]);
    const elsewhere = await site.import(`llama-swap ${site.file} --dir ${site.path}/git`, { SVC_LLAMA_SERVER: server });
    assert.equal(elsewhere.left.length, 1);
    const contained = await site.import(`llama-swap ${site.file}`, { SVC_LLAMA_SERVER: server, SVC_RUNTIME: "docker" });
    assert.equal(contained.left.length, 1, "containers run llama.cpp's own image");
  });

  it(
    "reads as root what only root may read, and writes as the user of the directory",
    { skip: noOtherUser() },
    async () => {
      await using site = await swapSite();
      await mkdir(site.configDir);
      await chown(site.configDir, otherUser, otherUser);
      await chmod(site.path, 0o755);
      await chmod(site.file, 0o600);
      const env = {
        ...site.env,
        HOME: site.path,
        SVC_CONFIG_DIR: site.configDir,
        SVC_STATE_DIR: join(site.path, "state"),
      };
      const { code, stderr } = await berthProcess(["config", "import", "llama-swap", site.file, "--yes"], env);
      assert.deepEqual([code, stderr], [0, ""]);
      assert.equal((await stat(site.slot)).uid, otherUser);
    },
  );

  it("names a file that this user may not write", { skip: noOtherUser() }, async () => {
    await using site = await swapSite();
    await mkdir(join(site.configDir, "slots"), { recursive: true });
    await chown(site.configDir, otherUser, otherUser);
    await chmod(site.path, 0o755);
    const env = { ...site.env, HOME: "/nonexistent", SVC_CONFIG_DIR: site.configDir };
    const words = ["config", "import", "llama-swap", site.file, "--yes"];
    const { code, stderr } = await berthProcess(words, env, { uid: otherUser, gid: otherUser });
    assert.deepEqual(
      [code, stderr],
      [
        1,
        `config.read_only: ${site.slot} cannot be written (EACCES)\nrun this as the user that owns the directory; a second run continues\n`,
      ],
    );
  });

  it("writes no files where slots are custom resources", async () => {
    await using site = await swapSite();
    const { code, stderr } = await site.import(`llama-swap ${site.file} --yes`, { SVC_STORE: "kubernetes" });
    assert.deepEqual(
      [code, stderr],
      [
        1,
        "config.read_only: the slots of this service are custom resources (SVC_STORE=kubernetes)\nname a directory of files by --dir\n",
      ],
    );
  });

  for (const [whose, isService] of [
    ["the service's user", true],
    ["the user of engines", false],
  ] as const)
    it(`says which files ${whose} may not read`, { skip: noOtherUser() }, async () => {
      await using site = await swapSite();
      const state = join(site.path, "state");
      await mkdir(state);
      if (isService) await chown(state, otherUser, otherUser);
      await chmod(site.path, 0o755);
      await chmod(join(site.path, "models/coder.gguf"), 0o600);
      const env = { ...site.env, HOME: site.path, SVC_CONFIG_DIR: site.configDir, SVC_STATE_DIR: state };
      const user = isService ? {} : { SVC_ENGINE_USER: String(otherUser) };
      const { stdout } = await berthProcess(["config", "import", "llama-swap", site.file], { ...env, ...user });
      const remedy = "chmod o+x its directories, or chmod o+r the file";
      assert.match(stdout, /coder\.gguf: .*\b(?:nobody|65534)\b.*, as whom engines run, may not read it: /);
      assert.ok(stdout.includes(remedy));
    });
});
