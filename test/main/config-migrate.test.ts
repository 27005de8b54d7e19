import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { runBerth, type Ended } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

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

  it("shows what it changes, keeps what was, and has nothing to do then", async () => {
    await using directory = await tempDir();
    await mkdir(join(directory.path, "slots"));
    for (const [file, text] of Object.entries(files)) await writeFile(join(directory.path, file), text);
    const run = async (...args: readonly string[]): Promise<Ended> => {
      const ended = await runBerth(["config", "migrate", directory.path, ...args]);
      return { ...ended, stdout: ended.stdout.replaceAll(directory.path, "DIR").replace(/\.backup\/\S+/, "BACKUP") };
    };
    assert.deepEqual(await run("--check"), { code: 1, stdout: `${diff}2 files would change\n`, stderr: "" });
    assert.equal(await readFile(join(directory.path, "slots/old.toml"), "utf8"), files["slots/old.toml"]);
    assert.deepEqual(await run(), {
      code: 0,
      stdout: `${diff}2 files migrated; what they were is in DIR/BACKUP\n`,
      stderr: "",
    });
    assert.equal(
      await readFile(join(directory.path, "slots/old.toml"), "utf8"),
      '# mine\nidle_seconds = 5\n[model]\ndefault = "m"\n',
    );
    const [stamp = ""] = await readdir(join(directory.path, ".backup"));
    for (const file of ["berth.toml", "slots/old.toml"] as const)
      assert.equal(await readFile(join(directory.path, ".backup", stamp, file), "utf8"), files[file]);
    assert.deepEqual(await run(), { code: 0, stdout: "DIR: nothing to migrate\n", stderr: "" });
    assert.deepEqual(await run("--check"), { code: 0, stdout: "DIR: nothing to migrate\n", stderr: "" });
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
