import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { askServer } from "../../src/program/server-facts.ts";
import { tempDir } from "../support/temp-dir.ts";

async function program(directory: string, script: string): Promise<string> {
  const path = join(directory, "llama-server");
  await writeFile(path, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  return path;
}

test("a llama-server is asked with the environment of engines, and with nothing else of the operator's", async () => {
  await using directory = await tempDir();
  const path = await program(
    directory.path,
    `case $1 in
--help) echo "--ctx-size N  --seen-by-$LD_LIBRARY_PATH --secret-$HF_TOKEN"; echo "  - 4: trace (more info)";;
--list-devices) echo "Available devices:"; echo "  CUDA0: NVIDIA H100 80GB HBM3 (81079 MiB, 80552 MiB free)";;
esac`,
  );
  const env = { PATH: process.env["PATH"], LD_LIBRARY_PATH: "opt-cuda", HF_TOKEN: "hf-abc" };
  const facts = await askServer(path, { env, engineUser: undefined });
  assert.deepEqual([...(facts.flags ?? [])], ["--ctx-size", "--seen-by-opt-cuda", "--secret-"]);
  assert.equal(facts.hasTraceLevel, true);
  assert.deepEqual(facts.devices, [{ id: "CUDA0", name: "NVIDIA H100 80GB HBM3", totalBytes: 81_079 * 1024 ** 2 }]);
});

test("a program that fails, or is not there, has said nothing", async () => {
  await using directory = await tempDir();
  const unknown = { flags: undefined, hasTraceLevel: false, devices: undefined };
  const path = await program(directory.path, "exit 127");
  for (const each of [path, join(directory.path, "absent")])
    assert.deepEqual(await askServer(each, { env: process.env, engineUser: undefined }), unknown);
});
