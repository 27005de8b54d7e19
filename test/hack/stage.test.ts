import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { it } from "node:test";
import { endOf } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const module = new URL("../../hack/images/stage.ts", import.meta.url).href;

/** Runs a script with `Stage`, `fs` and `tmp`, the directory that stages are made in; what is left there at its end. */
async function left(script: string): Promise<string[]> {
  await using directory = await tempDir();
  const code = `
    const fs = await import("node:fs");
    const { Stage } = await import(${JSON.stringify(module)});
    const tmp = ${JSON.stringify(directory.path)};
    ${script}`;
  const args = ["--disable-warning=ExperimentalWarning", "--input-type=module", "--eval", code];
  const ended = await endOf(process.execPath, args, { ...process.env, TMPDIR: directory.path });
  assert.equal(ended.code, 0, ended.stderr);
  return await readdir(directory.path);
}

it("a stage is removed however soon after its creation the process gets a signal to end", async () => {
  const script = `
    Stage.open();
    while (fs.readdirSync(tmp).length === 0);
    process.exit();`;
  assert.deepEqual(await left(script), []);
});

it("a stage is removed with files that are being copied into it when the process ends", async () => {
  const script = `
    const stage = Stage.open();
    void stage.add(process.execPath, "/usr/bin/node");
    const target = stage.root + "/usr/bin/node";
    const look = () => (fs.existsSync(target) ? process.exit() : setImmediate(look));
    look();`;
  assert.deepEqual(await left(script), []);
});
