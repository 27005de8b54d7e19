import assert from "node:assert/strict";
import { it } from "node:test";
import { importsOf } from "./imports.ts";
import { read, repositoryFiles } from "./tree.ts";

/** Its ES module face loads undici: see src/lib/node-http.ts. */
function importsValuesOfHttp(source: string): boolean {
  return importsOf(source).some(({ specifier, isTypeOnly }) => specifier === "node:http" && !isTypeOnly);
}

it("imports values of node:http in no program", () => {
  const programs = repositoryFiles().filter((path) => /^(src|engines\/src)\/.*\.ts$/.test(path));
  assert.deepEqual(
    programs.filter((path) => importsValuesOfHttp(read(path) ?? "")),
    [],
  );
});

it("finds an import of a value of node:http", () => {
  const from = 'from "node:http";';
  assert.equal(importsValuesOfHttp(`import { get, type Agent } ${from}`), true);
  assert.equal(importsValuesOfHttp(`import { type Agent } ${from}`), false);
});
