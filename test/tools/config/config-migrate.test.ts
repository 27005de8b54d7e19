import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { CommandError } from "../../../src/cli/client.ts";
import { migrateConfig } from "../../../src/tools/config/config-migrate.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { configSite } from "./site.ts";

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
  const nothing = { code: 0, stdout: "DIR/config: nothing to migrate\n", stderr: "" };

  it("shows its changes, keeps the old files, and has nothing to do the second time", async () => {
    await using site = await configSite(files);
    const slot = (): Promise<string> => readFile(join(site.configDir, "slots/old.toml"), "utf8");
    const check = "migrate CONFIG --check";
    assert.deepEqual(await site.config(check), { code: 1, stdout: `${diff}2 files would change\n`, stderr: "" });
    assert.equal(await slot(), files["slots/old.toml"]);
    const { stdout } = await site.config("migrate CONFIG");
    const backups = join(site.path, "state/backups");
    const [stamp = ""] = await readdir(backups);
    assert.equal(stdout, `${diff}2 files migrated; the previous files are in DIR/state/backups/${stamp}\n`);
    assert.equal(await slot(), '# mine\nidle_seconds = 5\n[model]\ndefault = "m"\n');
    assert.deepEqual((await readdir(site.configDir)).toSorted(), ["berth.toml", "slots"], "Git would take it");
    for (const file of ["berth.toml", "slots/old.toml"] as const)
      assert.equal(await readFile(join(backups, stamp, file), "utf8"), files[file]);
    assert.deepEqual([await site.config("migrate CONFIG"), await site.config(check)], [nothing, nothing]);
  });

  it("reads no file that is too large for a manifest, and changes nothing then", async () => {
    await using site = await configSite({ ...files, "slots/large.toml": `# ${"x".repeat(1024 ** 2)}\n` });
    const migration = migrateConfig(site.configDir, { isCheck: false, now: new Date(), stateDir: undefined });
    const { message, next } = await rejectionOf(migration, CommandError);
    assert.equal(message, "slots/large.toml: it is larger than 1 MiB, the limit of such a file");
    assert.equal(next, "no service reads it either: make it smaller, or move it away");
    assert.equal(await readFile(join(site.configDir, "berth.toml"), "utf8"), files["berth.toml"]);
  });

  it("does not call a missing directory migrated", async () => {
    await using site = await configSite();
    const next = "name another directory, or run this as the user that owns it";
    const stderr = `config.unreadable: DIR/config/none cannot be read (ENOENT)\n${next}\n`;
    assert.deepEqual(await site.config("migrate CONFIG/none", { SVC_STATE_DIR: undefined }), {
      code: 1,
      stdout: "",
      stderr,
    });
  });
});
