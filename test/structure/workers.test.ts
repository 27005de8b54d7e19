import assert from "node:assert/strict";
import { it } from "node:test";
import { read, repositoryFiles } from "./tree.ts";

it("TaskThread alone starts threads: the compiler leaves `.ts` in a URL, and the package has `.js`", () => {
  const files = repositoryFiles().filter((path) => /^src\/.*\.ts$/.test(path));
  assert.deepEqual(
    files.filter((path) => /new Worker\(/.test(read(path) ?? "")),
    ["src/lib/task-thread.ts"],
  );
});
