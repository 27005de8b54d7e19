import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { withoutDescriptors } from "../support/out-of-files.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

describe("startTimeOf", () => {
  it("reads past a name with spaces and parentheses", async () => {
    await using dir = await tempDir();
    const path = join(dir.path, "a) Z 1 (b");
    // A shell keeps the name of its file; Node soon gives itself another.
    await symlink("/bin/sh", path);
    const child = spawn(path, ["-c", "read line"], { stdio: ["pipe", "ignore", "ignore"] });
    try {
      await until("it runs under its name", async () =>
        (await readFile(`/proc/${child.pid}/stat`, "utf8")).includes("(a) Z 1 (b)"),
      );
      assert.match(startTimeOf(child.pid ?? 0) ?? "", /^\d{3,}$/);
    } finally {
      child.kill("SIGKILL");
    }
  });

  it("throws where it cannot read for want of a file descriptor", async () => {
    const module = new URL("../../src/lib/process-identity.ts", import.meta.url);
    assert.equal(await withoutDescriptors(module, `startTimeOf(${process.pid})`), "EMFILE");
  });
});
