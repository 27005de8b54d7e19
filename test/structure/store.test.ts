import assert from "node:assert/strict";
import { posix } from "node:path";
import { it } from "node:test";
import { importsOf } from "./imports.ts";
import { read, repositoryFiles } from "./tree.ts";

/** Beside the openers: what reads or writes a text that it is given, or a file that is no state. */
const plain = [
  "store/origin.ts",
  "store/files/berth-toml.ts",
  "store/edit/yaml-text.ts",
  "store/files/declared-slots.ts",
  "store/files/documents.ts",
  "store/files/listing.ts",
  "store/files/manifest-limit.ts",
  "store/files/manifest-text.ts",
  "store/files/manifest.ts",
  "store/files/migrate.ts",
  "store/files/spelling.ts",
  "store/files/validate.ts",
  // The images and the models that a release ships, in its own directory.
  "store/files/catalog.ts",
  "store/state/engine-images.ts",
  // A path, of files that gateways alone read and write.
  "store/state/conversation-directory.ts",
  // The locks of updates and of conversations are no state.
  "store/state/lock.ts",
];

const openers = ["store/open.ts", "store/open-admin.ts", "store/open-cluster.ts"];

it("operator, gateways and tools take the store from src/store/open.ts, and open no part of one themselves", () => {
  const found: string[] = [];
  for (const path of repositoryFiles()) {
    if (!path.startsWith("src/") || !path.endsWith(".ts") || path.startsWith("src/store/")) continue;
    for (const { specifier, line, isTypeOnly } of importsOf(read(path) ?? "")) {
      const target = posix.join(posix.dirname(path), specifier).slice("src/".length);
      if (!specifier.startsWith(".") || !target.startsWith("store/") || isTypeOnly) continue;
      if (!openers.includes(target) && !plain.includes(target)) found.push(`${path}:${line}: ${target}`);
    }
  }
  assert.deepEqual(found, []);
});
