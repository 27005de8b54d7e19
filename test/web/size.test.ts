import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const built = fileURLToPath(new URL("../../web/dist/", import.meta.url));

for (const [page, limitKiB] of [
  ["dashboard", 120],
  ["chat", 180],
] as const)
  it(`all files of the ${page} page have at most ${limitKiB} KiB by gzip`, () => {
    const files = readdirSync(join(built, page), { recursive: true, withFileTypes: true }).filter((each) =>
      each.isFile(),
    );
    const sizes = files.map(({ parentPath, name }) => gzipSync(readFileSync(join(parentPath, name))).length);
    const sum = sizes.reduce((all, size) => all + size, 0);
    assert.ok(sum > 10_000 && sum <= limitKiB * 1024, `${sum} bytes in ${files.length} files`);
  });
