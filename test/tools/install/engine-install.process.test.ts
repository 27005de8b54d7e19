import assert from "node:assert/strict";
import { access, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { installInto } from "../../../src/tools/install/engine-install.ts";
import { tempDir } from "../../support/temp-dir.ts";

const name = "@node-llama-cpp/linux-x64";
const lock = (integrity: string) => JSON.stringify({ packages: { [`node_modules/${name}`]: { integrity } } });

/** A DOUBLE of npm, which installs the right package of llama.cpp. */
const npm = `#!/bin/sh
echo "$1" >> npm.log
mkdir -p node_modules/${name}
echo '{"version":"1.2.3"}' > node_modules/${name}/package.json
cp package-lock.json node_modules/.package-lock.json
`;

test("an engine of the right version counts as installed only with its hash, and is installed again otherwise", async () => {
  await using directory = await tempDir();
  const { path } = directory;
  const target = join(path, "engine");
  for (const each of ["node-llama-cpp", name]) {
    await mkdir(join(target, "node_modules", each), { recursive: true });
    await writeFile(join(target, "node_modules", each, "package.json"), '{"version":"1.2.3"}');
  }
  await writeFile(join(target, "package.json"), '{"dependencies":{"node-llama-cpp":"1.2.3"}}');
  await writeFile(join(target, "package-lock.json"), lock("sha512-right"));
  // npm was killed before it wrote its own list, or Berth before it compared the hashes.
  const list = join(target, "node_modules/.package-lock.json");
  await writeFile(join(path, "npm"), npm, { mode: 0o755 });
  process.env["PATH"] = `${path}:${process.env["PATH"] ?? ""}`;
  const stray = join(target, "node_modules", name, "of-the-wrong-package");
  const lines: string[] = [];
  const install = () => installInto(target, "linux-x64", (line) => lines.push(line));
  const log = () => readFile(join(target, "npm.log"), "utf8");
  for (const [left, why] of [
    ["{}", "its hash is not known"],
    [lock("sha512-other"), "its hash is sha512-other, not sha512-right"],
  ] as const) {
    await writeFile(list, left);
    await writeFile(stray, "");
    lines.length = 0;
    assert.equal(await install(), 0);
    const wrong = `${name} is not the package that ${join(target, "package-lock.json")} names: ${why}`;
    assert.ok(lines[0]?.startsWith(wrong), lines[0]);
    assert.match(lines[0] ?? "", /; it was removed, and is installed again$/);
    await assert.rejects(access(stray), { code: "ENOENT" });
    assert.match(lines.at(-1) ?? "", /^the embedded engine is installed/);
  }
  const before = await log();
  lines.length = 0;
  assert.equal(await install(), 0);
  assert.deepEqual(lines, ["the embedded engine (llama.cpp through node-llama-cpp 1.2.3) is installed"]);
  assert.equal(await log(), before, "npm is not asked");
});

test("the engine's lockfile has a hash for each platform that can be installed", async () => {
  const directory = fileURLToPath(new URL("../../../engines", import.meta.url));
  const { packages } = JSON.parse(await readFile(join(directory, "package-lock.json"), "utf8"));
  for (const platform of ["linux-x64", "linux-arm64"])
    assert.match(packages[`node_modules/@node-llama-cpp/${platform}`]?.integrity ?? "", /^sha512-/, platform);
});
