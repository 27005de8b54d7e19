import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { read } from "./tree.ts";

/**
 * Packages that bring an install script, and why Berth works without it. npm runs none of them in a clone (.npmrc), and an
 * installed Berth must not need, nor load, what they make: a native addon that one Node has compiled ends another Node
 * with a segmentation fault.
 */
const unneeded: Readonly<Record<string, readonly string[]>> = {
  "package-lock.json": [
    "bcrypt", // its binaries are in the package, for each system
    "cpu-features", // compiled for ssh2 alone
    "esbuild", // checks its binary, which is in a package for each platform
    "protobufjs", // checks version numbers
    "ssh2", // Docker over SSH: src/runtimes/docker/client.ts loads an empty module instead
  ],
  "engines/package-lock.json": [
    "node-llama-cpp", // llama.cpp comes compiled, in a package for each platform
  ],
  "site/package-lock.json": [
    "esbuild", // checks its binary, which is in a package for each platform
  ],
};

describe("install scripts", () => {
  for (const [lockfile, names] of Object.entries(unneeded)) {
    it(`of ${lockfile} are those that are named here`, () => {
      const { packages } = JSON.parse(read(lockfile) ?? "{}");
      const found = Object.keys(packages).filter((path) => packages[path].hasInstallScript === true);
      assert.deepEqual(
        found,
        names.map((name) => `node_modules/${name}`),
      );
    });
  }

  for (const file of [".npmrc", "engines/.npmrc", "site/.npmrc"]) {
    it(`are forbidden by ${file}`, () => {
      assert.ok((read(file) ?? "").split("\n").includes("ignore-scripts=true"));
    });
  }

  it("are not how Node comes: each platform's Node is a package with a hash in the lockfile", () => {
    const { packages } = JSON.parse(read("package-lock.json") ?? "{}");
    for (const platform of ["linux-x64", "linux-arm64"])
      assert.match(packages[`node_modules/node-${platform}`].integrity, /^sha512-/);
    assert.equal(packages["node_modules/node"], undefined);
  });
});
