import assert from "node:assert/strict";
import { chmod, chown, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { makeRun } from "../support/make-run.ts";
import { noOtherUser, twoUsersDir } from "../support/other-user.ts";
import { tempDir } from "../support/temp-dir.ts";

describe("make run in a directory that was there before", { concurrency: 2 }, () => {
  it("runs nothing, and writes nothing, where everybody may write", async () => {
    await using directory = await tempDir();
    const run = join(directory.path, "run");
    await mkdir(run);
    await chmod(run, 0o777);
    await using started = await makeRun(directory.path, { BERTH_RUN_DIR: run });
    assert.equal(await started.ended, 1);
    assert.match(
      started.errors(),
      /^make run: \S+\/run is not safe: \S+\/run may be written by everybody \(mode 777\); chmod/,
    );
  });

  it("runs no command of the user who made it first", { skip: noOtherUser() ?? false }, async () => {
    await using directory = await twoUsersDir();
    const ran = join(directory.path, "ran");
    await mkdir(join(directory.theirs, "config/slots"), { recursive: true });
    await writeFile(
      join(directory.theirs, "config/slots/evil.toml"),
      `enabled = true\nload_policy = "always"\ncommand = ["/bin/sh", "-c", "id >${ran}"]\n`,
    );
    await chown(join(directory.theirs, "config"), 65_534, 65_534);
    await using started = await makeRun(directory.path, { BERTH_RUN_DIR: directory.theirs });
    assert.equal(await started.ended, 1);
    assert.match(started.errors(), /^make run: \S+\/theirs is not safe: \S+\/theirs belongs to \S+ \(uid 65534\)/);
    assert.ok(!(await readdir(directory.path)).includes("ran"));
    assert.deepEqual(await readdir(directory.theirs), ["config"]);
  });
});
