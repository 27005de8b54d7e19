import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const client = fileURLToPath(new URL("../../../src/runtimes/docker/client.ts", import.meta.url));

/** Loads Docker's client in a process of its own, as a start with containers does, and reports what it loads. */
const script = `
  import { createRequire } from "node:module";
  const { Dockerode } = await import(${JSON.stringify(client)});
  new Dockerode({ socketPath: "/nonexistent" });
  const loaded = Object.keys(createRequire(import.meta.url).cache);
  const modules = loaded.filter((path) => /node_modules.(ssh2.lib.(?!index)|cpu-features)|\\.node$/.test(path));
  const objects = process.report.getReport().sharedObjects.filter((path) => path.endsWith(".node"));
  console.log(JSON.stringify({ hasModem: loaded.some((path) => path.includes("docker-modem")), modules, objects }));
`;

test("Docker's client loads neither ssh2 nor any native addon, whichever Node compiled them", async () => {
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script]);
  assert.deepEqual(JSON.parse(stdout), { hasModem: true, modules: [], objects: [] });
});
