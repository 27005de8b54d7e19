import assert from "node:assert/strict";
import { mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { endOf } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const script = fileURLToPath(new URL("../../hack/apt.sh", import.meta.url));

/** A Debian in a directory, with an apt-get of the test's own. */
async function debian(aptGet: string, user = "0"): Promise<AsyncDisposable & { readonly path: string }> {
  const directory = await tempDir();
  const { path } = directory;
  for (const each of ["bin", "var/lib/apt", "usr/sbin"]) await mkdir(join(path, each), { recursive: true });
  await writeFile(join(path, "bin/apt-get"), `#!/bin/sh\nset -eu\ncd '${path}'\n${aptGet}\n`, { mode: 0o755 });
  await writeFile(join(path, "bin/id"), `#!/bin/sh\necho ${user}\n`, { mode: 0o755 });
  return directory;
}

async function install(root: string, ...packages: readonly string[]): Promise<{ code: number | null; text: string }> {
  const env = { PATH: `${join(root, "bin")}:${process.env["PATH"]}`, DPKG_ROOT: root };
  const { code, stdout, stderr } = await endOf(script, ["make test-x", ...packages], env);
  return { code, text: stdout + stderr };
}

describe("hack/apt.sh", () => {
  it("installs one caller's packages after another's, since apt-get fails while another one runs", async () => {
    await using root = await debian('mkdir held\necho "$1" >>log\n[ -e usr/sbin/policy-rc.d ]\nsleep 0.1\nrmdir held');
    const ends = await Promise.all(["a", "b", "c"].map((name) => install(root.path, name)));
    assert.deepEqual(
      ends.map(({ code, text }) => [code, text.replace(/[abc]\n/, "NAME\n")]),
      ends.map(() => [0, "make test-x: installing NAME\n"]),
    );
    const order = ["update", "install"];
    assert.equal(await readFile(join(root.path, "log"), "utf8"), `${[order, order, order].flat().join("\n")}\n`);
    assert.deepEqual(await readdir(join(root.path, "usr/sbin")), [], "services may start again");
  });

  it("leaves a rule for services that was there", async () => {
    await using root = await debian("true");
    await writeFile(join(root.path, "usr/sbin/policy-rc.d"), "mine");
    assert.equal((await install(root.path, "a")).code, 0);
    assert.equal(await readFile(join(root.path, "usr/sbin/policy-rc.d"), "utf8"), "mine");
  });

  it("says what apt-get said where it fails", async () => {
    await using root = await debian('[ "$1" = update ] || { echo "E: no such package" >&2; exit 100; }');
    assert.deepEqual(await install(root.path, "a", "b"), {
      code: 1,
      text: "make test-x: installing a b\nE: no such package\nmake test-x: apt-get could not install a b\n",
    });
    assert.deepEqual(await readdir(join(root.path, "usr/sbin")), []);
  });

  it("names the packages to somebody who may not install them", async () => {
    await using root = await debian("exit 1", "1000");
    assert.deepEqual(await install(root.path, "a", "b"), {
      code: 1,
      text: "make test-x: missing: a b; on Debian, as root: apt-get install a b\n",
    });
  });
});
