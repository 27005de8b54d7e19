import assert from "node:assert/strict";
import { access, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { integrityProblem, removePackage } from "../../../src/tools/install/engine-integrity.ts";
import { tempDir } from "../../support/temp-dir.ts";

const name = "@node-llama-cpp/linux-x64";
const lock = (integrity: string) => JSON.stringify({ packages: { [`node_modules/${name}`]: { integrity } } });

test("llama.cpp's package counts only with the hash that the lockfile names", async () => {
  await using directory = await tempDir();
  const { path } = directory;
  await mkdir(join(path, "node_modules", name), { recursive: true });
  await writeFile(join(path, "package-lock.json"), lock("sha512-right"));
  const installed = join(path, "node_modules/.package-lock.json");
  await writeFile(installed, lock("sha512-right"));
  assert.equal(await integrityProblem(path, name), undefined);
  await writeFile(installed, lock("sha512-other"));
  const where = join(path, "package-lock.json");
  assert.equal(
    await integrityProblem(path, name),
    `${name} is not the package that ${where} names: its hash is sha512-other, not sha512-right`,
  );
  await writeFile(installed, "{}");
  assert.match((await integrityProblem(path, name)) ?? "", /its hash is not known/);
  await removePackage(path, name);
  await assert.rejects(access(join(path, "node_modules", name)), { code: "ENOENT" });
});

test("the engine's lockfile has a hash for each platform that can be installed", async () => {
  const directory = fileURLToPath(new URL("../../../engines", import.meta.url));
  const { packages } = JSON.parse(await readFile(join(directory, "package-lock.json"), "utf8"));
  for (const platform of ["linux-x64", "linux-arm64"])
    assert.match(packages[`node_modules/@node-llama-cpp/${platform}`]?.integrity ?? "", /^sha512-/, platform);
});
