import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { CommandError } from "../../../src/cli/client.ts";
import { migrateConfig } from "../../../src/tools/config/config-migrate.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { runBerth, type Ended } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";

describe("berth config migrate", () => {
  const files = {
    "berth.toml": "port = 9000\nholdSeconds = 5\n",
    "slots/good.toml": '[model]\ndefault = "m"\n',
    "slots/old.toml": '# mine\nidleSeconds = 5\n[model]\ndefault = "m"\n',
  };
  const diff = `--- berth.toml
+++ berth.toml
@@ -2 +2 @@
-holdSeconds = 5
+hold_seconds = 5
--- slots/old.toml
+++ slots/old.toml
@@ -2 +2 @@
-idleSeconds = 5
+idle_seconds = 5
`;

  it("shows its changes, keeps the old files, and has nothing to do the second time", async () => {
    await using directory = await tempDir();
    const stateDir = join(directory.path, "state");
    await mkdir(join(directory.path, "slots"));
    for (const [file, text] of Object.entries(files)) await writeFile(join(directory.path, file), text);
    const run = async (...args: readonly string[]): Promise<Ended> => {
      const ended = await runBerth(["config", "migrate", directory.path, ...args], { SVC_STATE_DIR: stateDir });
      return {
        ...ended,
        stdout: ended.stdout.replaceAll(directory.path, "DIR").replace(/state\/backups\/\S+/, "BACKUP"),
      };
    };
    assert.deepEqual(await run("--check"), { code: 1, stdout: `${diff}2 files would change\n`, stderr: "" });
    assert.equal(await readFile(join(directory.path, "slots/old.toml"), "utf8"), files["slots/old.toml"]);
    assert.deepEqual(await run(), {
      code: 0,
      stdout: `${diff}2 files migrated; the previous files are in DIR/BACKUP\n`,
      stderr: "",
    });
    assert.equal(
      await readFile(join(directory.path, "slots/old.toml"), "utf8"),
      '# mine\nidle_seconds = 5\n[model]\ndefault = "m"\n',
    );
    assert.deepEqual((await readdir(directory.path)).toSorted(), ["berth.toml", "slots", "state"], "Git would take it");
    const [stamp = ""] = await readdir(join(stateDir, "backups"));
    for (const file of ["berth.toml", "slots/old.toml"] as const)
      assert.equal(await readFile(join(stateDir, "backups", stamp, file), "utf8"), files[file]);
    assert.deepEqual(await run(), { code: 0, stdout: "DIR: nothing to migrate\n", stderr: "" });
    assert.deepEqual(await run("--check"), { code: 0, stdout: "DIR: nothing to migrate\n", stderr: "" });
  });

  it("takes the backups of earlier versions out of the configuration", async () => {
    await using directory = await tempDir();
    await mkdir(join(directory.path, "config/.backup/then/slots"), { recursive: true });
    await writeFile(join(directory.path, "config/.backup/then/slots/a.toml"), "old");
    const stateDir = join(directory.path, "state");
    const migrated = await runBerth(["config", "migrate", join(directory.path, "config")], { SVC_STATE_DIR: stateDir });
    assert.equal(migrated.code, 0, migrated.stderr);
    assert.match(migrated.stdout, /^the backups in \S+\/config\/\.backup are in \S+\/state\/backups now\n/);
    assert.deepEqual(await readdir(join(directory.path, "config")), []);
    assert.equal(await readFile(join(stateDir, "backups/then/slots/a.toml"), "utf8"), "old");
  });

  it("reads no file that is too large for a manifest, and changes nothing then", async () => {
    await using directory = await tempDir();
    await mkdir(join(directory.path, "slots"));
    await writeFile(join(directory.path, "berth.toml"), files["berth.toml"]);
    await writeFile(join(directory.path, "slots/large.toml"), `# ${"x".repeat(1024 ** 2)}\n`);
    const migration = migrateConfig(directory.path, { isCheck: false, now: new Date(), stateDir: undefined });
    const { message, next } = await rejectionOf(migration, CommandError);
    assert.equal(message, "slots/large.toml: it is larger than 1 MiB, the limit of such a file");
    assert.equal(next, "no service reads it either: make it smaller, or move it away");
    assert.deepEqual((await readdir(directory.path)).toSorted(), ["berth.toml", "slots"]);
  });

  it("does not call a missing directory migrated", async () => {
    await using directory = await tempDir();
    const { code, stderr } = await runBerth(["config", "migrate", join(directory.path, "none")]);
    assert.equal(code, 1);
    assert.match(
      stderr,
      /^config\.unreadable: .*none cannot be read \(ENOENT\)\nname another directory, or run this as the user that owns it\n$/,
    );
  });
});
