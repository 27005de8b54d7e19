import assert from "node:assert/strict";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { endOf } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

it("scripts of hack/ work in the clone, whatever CDPATH a shell has exported", async () => {
  await using elsewhere = await tempDir();
  await mkdir(join(elsewhere.path, "hack/cluster"), { recursive: true });
  const names = (await readdir(join(root, "hack"))).filter((name) => name.endsWith(".sh"));
  const moved: string[] = [];
  for (const name of names) {
    const line = /^.*cd "\$\(dirname "\$0"\)\/.*$/m.exec(await readFile(join(root, "hack", name), "utf8"))?.[0];
    if (line === undefined) continue;
    const shell = ["-c", `${line} && pwd -P`, `hack/${name}`];
    const { stdout } = await endOf("sh", shell, { CDPATH: elsewhere.path }, { cwd: root });
    assert.ok(`${stdout.trim()}/`.startsWith(root), `${name}: ${stdout}`);
    moved.push(name);
  }
  assert.ok(moved.length >= 7, moved.join(" "));
});
