import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const built = fileURLToPath(new URL("../../web/dist/", import.meta.url));

for (const [page, limitBytes] of [
  ["dashboard", 120_000],
  ["chat", 180_000],
] as const)
  it(`all files of the ${page} page have at most ${limitBytes / 1000} KB by gzip`, (t) => {
    const files = readdirSync(join(built, page), { recursive: true, withFileTypes: true }).filter(
      (each) => each.isFile() && !each.name.endsWith(".gz"),
    );
    const sizes = files.map(({ parentPath, name }) => gzipSync(readFileSync(join(parentPath, name))).length);
    const sum = sizes.reduce((all, size) => all + size, 0);
    t.diagnostic(`${page}: ${(sum / 1000).toFixed(1)} KB in ${files.length} files`);
    assert.ok(sum > 10_000 && sum <= limitBytes, `${sum} bytes in ${files.length} files`);
  });
