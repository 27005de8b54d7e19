import assert from "node:assert/strict";
import { posix } from "node:path";
import { it } from "node:test";
import { importsOf } from "./imports.ts";
import { read, repositoryFiles } from "./tree.ts";

it("the pages of web/ take types and pure values from src/api alone", () => {
  const files = repositoryFiles().filter((path) => /^web\/.*\.tsx?$/.test(path));
  assert.ok(files.length > 30, "the pages were found");
  const values = new Set<string>();
  for (const file of files) {
    for (const { specifier, isTypeOnly, line } of importsOf(read(file) ?? "")) {
      if (!specifier.startsWith(".")) continue;
      const target = posix.join(posix.dirname(file), specifier);
      assert.match(target, /^(?:web|src\/api)\//, `${file}:${line}`);
      if (target.startsWith("src/") && !isTypeOnly) values.add(target);
    }
  }
  assert.ok(values.size > 0, "imports of values were found");
  for (const file of values) {
    for (const { specifier, isTypeOnly, line } of importsOf(read(file) ?? "")) {
      // A schema library, for one, would be a part of the page.
      assert.ok(isTypeOnly || specifier.startsWith("."), `${file}:${line}: a page would carry ${specifier}`);
      if (!isTypeOnly) values.add(posix.join(posix.dirname(file), specifier));
    }
  }
});
