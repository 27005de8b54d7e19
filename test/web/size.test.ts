import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const built = fileURLToPath(new URL("../../web/dist/", import.meta.url));

const kib = 1024;
/** Packed already, kept by the browser for both pages, and not waited for. */
const isFont = (name: string): boolean => name.endsWith(".woff2");

const isNamed = (name: string): boolean =>
  name === "index.html" || readFileSync(join(built, "dashboard/index.html"), "utf8").includes(`/${name}"`);

/** Bytes by gzip of the files of a page that its reader loads. */
function packed(page: string, isCounted: (name: string) => boolean): readonly number[] {
  return readdirSync(join(built, page), { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile() && !each.name.endsWith(".gz") && !isFont(each.name) && isCounted(each.name))
    .map(({ parentPath, name }) => gzipSync(readFileSync(join(parentPath, name))).length);
}

for (const [what, page, limitBytes, isCounted] of [
  ["all files of the dashboard", "dashboard", 120 * kib, () => true],
  // The page and the files that it names; charts, the editor and the forms of the playground come once they are shown.
  ["the first paint of the dashboard", "dashboard", 60 * kib, isNamed],
  ["all files of the chat page", "chat", 180 * kib, () => true],
] as const satisfies readonly (readonly [string, string, number, (name: string) => boolean])[])
  it(`${what}: at most ${limitBytes / kib} KiB by gzip`, (t) => {
    const sizes = packed(page, isCounted);
    const sum = sizes.reduce((all, size) => all + size, 0);
    t.diagnostic(`${what}: ${(sum / kib).toFixed(1)} KiB in ${sizes.length} files`);
    assert.ok(sizes.length >= 3 && sum > 10 * kib && sum <= limitBytes, `${sum} bytes in ${sizes.length} files`);
  });
