import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { copyFile, mkdir, readdir, readlink, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { currentVersion, installedVersions, pruneReleases, swapCurrent } from "../../../src/tools/release/current.ts";
import { tempDir } from "../../support/temp-dir.ts";

/** Empty releases of these versions, below a directory of their own. */
async function prefixWith(...versions: readonly string[]) {
  const directory = await tempDir();
  const prefix = join(directory.path, "lib/berth");
  for (const version of versions) {
    await mkdir(join(prefix, version, "bin"), { recursive: true });
    await writeFile(join(prefix, version, "release.json"), "{}");
  }
  await mkdir(prefix, { recursive: true });
  return {
    places: { prefix, current: join(prefix, "current") },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

describe("the releases of an installation", () => {
  it("lead from `current` to one of them, which another replaces at once", async () => {
    await using at = await prefixWith("0.1.0", "0.2.0");
    const { places } = at;
    assert.equal(await currentVersion(places), undefined);
    await swapCurrent(places, "0.1.0");
    assert.equal(await currentVersion(places), "0.1.0");
    await swapCurrent(places, "0.2.0");
    assert.equal(await currentVersion(places), "0.2.0");
    assert.equal(await readlink(places.current), "0.2.0", "relative: the prefix may be moved");
    assert.deepEqual((await readdir(places.prefix)).toSorted(), ["0.1.0", "0.2.0", "current"]);
  });

  it("are listed without what is no release", async () => {
    await using at = await prefixWith("0.2.0", "0.1.0", ".unpacked.0.3.0");
    await mkdir(join(at.places.prefix, "notes"));
    await swapCurrent(at.places, "0.2.0");
    assert.deepEqual(await installedVersions(at.places), ["0.1.0", "0.2.0"]);
    assert.deepEqual(await installedVersions({ prefix: join(at.places.prefix, "missing") }), []);
  });

  it("are removed when they are neither kept nor in use", async () => {
    await using at = await prefixWith("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0");
    const { places } = at;
    await swapCurrent(places, "0.5.0");
    // One process whose program is 0.1.0's, and one whose argument is: as Node and its script are.
    const program = join(places.prefix, "0.1.0/bin/sleeps");
    await copyFile("/bin/sleep", program);
    const script = join(places.prefix, "0.2.0/bin/waits");
    await writeFile(script, "#!/bin/sh\nread line\n", { mode: 0o755 });
    const running = [spawn(program, ["60"]), spawn("/bin/sh", [script], { stdio: ["pipe", "ignore", "ignore"] })];
    try {
      for (const child of running)
        if (child.pid === undefined) await new Promise((resolve) => child.once("spawn", resolve));
      assert.deepEqual(await pruneReleases(places, { keep: ["0.5.0", "0.4.0"] }), ["0.3.0"]);
    } finally {
      for (const child of running) {
        const ended = new Promise((resolve) => child.once("close", resolve));
        child.kill("SIGKILL");
        await ended;
      }
    }
    assert.deepEqual(await pruneReleases(places, { keep: ["0.5.0", "0.4.0"] }), ["0.1.0", "0.2.0"]);
    assert.deepEqual((await readdir(places.prefix)).toSorted(), ["0.4.0", "0.5.0", "current"]);
  });

  it("are not removed through a link to elsewhere", async () => {
    await using at = await prefixWith("0.2.0");
    const elsewhere = join(at.places.prefix, "../elsewhere");
    await mkdir(elsewhere);
    await writeFile(join(elsewhere, "release.json"), "{}");
    await symlink(elsewhere, join(at.places.prefix, "0.1.0"));
    assert.deepEqual(await pruneReleases(at.places, { keep: ["0.2.0"] }), ["0.1.0"]);
    assert.deepEqual(await readdir(elsewhere), ["release.json"]);
  });
});
