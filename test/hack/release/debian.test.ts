import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { endOf, type Ended } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";

/** A DOUBLE of a release's `bin/berth`, which says how it is called. */
const berth = '#!/bin/sh\necho "$0 $*"\n';

/** The directory of releases, where the package has put its own files. */
async function machine() {
  const directory = await tempDir();
  const { path } = directory;
  await mkdir(join(path, "package/bin"), { recursive: true });
  await writeFile(join(path, "package/bin/berth"), berth, { mode: 0o755 });
  return {
    path,
    /** Runs a script of the package of that version, as dpkg does. */
    run: async (script: "postinst" | "prerm", act: string, version: string): Promise<Ended> => {
      const text = await readFile(new URL(`../../../hack/release/debian/${script}`, import.meta.url), "utf8");
      const here = text.replaceAll("@VERSION@", version).replaceAll("/usr/lib/berth", path);
      return await endOf("sh", ["-c", here, script, act], { PATH: process.env["PATH"] });
    },
    [Symbol.asyncDispose]: async () => await directory[Symbol.asyncDispose](),
  };
}

const noDpkg = spawnSync("sh", ["-c", "command -v dpkg"]).status === 0 ? false : "dpkg compares the versions";

describe("the Debian package's postinst", { skip: noDpkg }, () => {
  for (const [current, version, isNewer] of [
    ["0.2.0-rc.1", "0.2.0", false],
    ["0.2.0", "0.2.0-rc.1", true],
    ["0.2.0-rc.2", "0.2.0-rc.1", true],
    ["0.1.9", "0.2.0-rc.1", false],
  ] as const)
    it(`${isNewer ? "leaves" : "replaces"} ${current}, being of ${version}`, async () => {
      await using at = await machine();
      await symlink(current, join(at.path, "current"));
      const { stdout, stderr, code } = await at.run("postinst", "configure", version);
      assert.equal(code, 0, stderr);
      assert.equal(stdout, isNewer ? "" : `${at.path}/${version}/bin/berth install --yes\n`);
      assert.equal(stderr.includes("which is newer than this package"), isNewer);
    });
});

it("the Debian package's prerm removes the release of an installation that has failed", async () => {
  await using at = await machine();
  await mkdir(join(at.path, "0.2.0/bin"), { recursive: true });
  await writeFile(join(at.path, "0.2.0/bin/berth"), berth, { mode: 0o755 });
  assert.equal((await at.run("prerm", "upgrade", "0.2.0")).stdout, "");
  const { stdout, code } = await at.run("prerm", "remove", "0.2.0");
  assert.deepEqual([code, stdout], [0, `${at.path}/0.2.0/bin/berth uninstall --yes --keep-data\n`]);
  assert.deepEqual(await readdir(at.path), ["package"]);
});
