import assert from "node:assert/strict";
import { rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, relative, resolve } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { importsOf } from "../structure/imports.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway } from "../support/gateway.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Every package that is loaded when that module is, and by which of ours first. */
async function packagesOf(entry: string): Promise<Map<string, string>> {
  const seen = new Set([resolve(root, entry)]);
  const packages = new Map<string, string>();
  for (const file of seen) {
    for (const { specifier, isDynamic, isTypeOnly } of importsOf(await readFile(file, "utf8"))) {
      if (isDynamic || isTypeOnly || specifier.startsWith("node:")) continue;
      if (specifier.startsWith(".")) seen.add(resolve(dirname(file), specifier));
      else if (!packages.has(specifier)) packages.set(specifier, relative(root, file));
    }
  }
  return packages;
}

// Memory at rest: what only an upstream, a written manifest or a check of files needs is loaded for those.
it("a gateway that starts loads no client of providers, and no parser of manifests", async () => {
  const packages = await packagesOf("src/gateway/main.ts");
  assert.deepEqual([...packages.keys()].toSorted(), ["fastify", "prom-client", "zod"], JSON.stringify([...packages]));
});

it("a gateway that cannot start listens to nobody", async () => {
  const port = await freePort();
  const onStart = (stateDir: string): void => {
    rmSync(stateDir, { recursive: true });
    writeFileSync(stateDir, "no directory");
  };
  await assert.rejects(startGateway({ env: { SVC_PORT: String(port) }, onStart }), { code: "ENOTDIR" });
  await assert.rejects(fetch(`http://127.0.0.1:${port}/livez`), { message: "fetch failed" });
});
