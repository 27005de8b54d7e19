import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readSecretFile, secretPlaces } from "../../src/lib/secret-file.ts";
import { tempDir } from "../support/temp-dir.ts";

/** An installation with a file of its own, a secret, and another file. */
async function site() {
  const directory = await tempDir();
  const at = (...names: string[]): string => join(directory.path, ...names);
  for (const name of ["state", "config", "secrets", "other"]) await mkdir(at(name));
  for (const file of ["state/token", "config/berth.toml", "secrets/key", "other/key"]) await writeFile(at(file), file);
  return {
    path: directory.path,
    state: at("state"),
    places: (secretsDir?: string) => secretPlaces({ secretsDir, stateDir: at("state"), configDir: at("config") }),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

const own = { name: "UnfitFile", message: "it is a file of Berth itself or of a service account" };

describe("a file that a manifest names as a secret", () => {
  it("is any but Berth's own where no directory is named", async () => {
    await using at = await site();
    const read = async (path: string): Promise<string> => await readSecretFile(path, 1024, at.places());
    assert.equal(await read(join(at.path, "other/key")), "other/key");
    await symlink(join(at.state, "token"), join(at.path, "other/link"));
    for (const path of ["state/token", "config/berth.toml", "other/../state/token", "other/link"])
      await assert.rejects(read(`${at.path}/${path}`), own, path);
    await assert.rejects(read("/proc/self/environ"), own);
  });

  it("lies below the named directory, links included", async () => {
    await using at = await site();
    const secrets = join(at.path, "secrets");
    const read = async (path: string): Promise<string> => await readSecretFile(path, 1024, at.places(secrets));
    // As the kubelet writes a Secret.
    await mkdir(join(secrets, "..2026"));
    await writeFile(join(secrets, "..2026/mounted"), "mounted");
    await symlink("..2026", join(secrets, "..data"));
    await symlink("..data/mounted", join(secrets, "mounted"));
    await symlink(join(at.path, "other/key"), join(secrets, "outside"));
    assert.deepEqual(
      [await read(join(secrets, "key")), await read(join(secrets, "mounted"))],
      ["secrets/key", "mounted"],
    );
    const outside = { name: "UnfitFile", message: `only files below ${secrets} are read (SVC_SECRETS_DIR)` };
    // Also a file that is not there: nobody learns which files are.
    for (const path of ["other/key", "other/none", "secrets/../other/key", "secrets-too/key", "secrets/outside"])
      await assert.rejects(read(`${at.path}/${path}`), outside, path);
    await assert.rejects(read(join(secrets, "none")), { code: "ENOENT" });
  });

  it("is never Berth's own, also below the named directory", async () => {
    await using at = await site();
    await assert.rejects(readSecretFile(join(at.state, "token"), 1024, at.places(at.path)), { name: "UnfitFile" });
  });
});
