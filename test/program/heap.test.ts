import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { z } from "zod";
import { loadConfig } from "../../src/api/config.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = async (path: string): Promise<string> => await readFile(join(root, path), "utf8");
const mebibytes = (bytes: number): number => bytes / 1024 ** 2;

it("the gateway's heap and the bodies beside it fit into the memory that the chart gives its container", async () => {
  const values = z
    .object({ gateway: z.object({ resources: z.object({ limits: z.object({ memory: z.literal("1Gi") }) }) }) })
    .parse(parse(await read("charts/berth/values.yaml")));
  assert.equal(values.gateway.resources.limits.memory, "1Gi");
  const { config } = loadConfig({}, {}, { isRoot: true, home: "/", xdgConfigHome: undefined, xdgStateHome: undefined });
  const heaps = await Promise.all(
    ["charts/berth/templates/gateway.yaml", "bin/berth", "src/program/supervisor.ts"].map(async (path) => {
      const [, own] = /max-semi-space-size=8\b.*--max-old-space-size=(\d+)/.exec(await read(path)) ?? [];
      return Number(own);
    }),
  );
  const [heap = Infinity] = heaps;
  assert.deepEqual(heaps, [heap, heap, heap]);
  // Its code, three parts of young memory, buffers of connections, and a body that is copied into one buffer.
  const restMiB = 60 + 3 * 8 + mebibytes(config?.bodyLimit ?? Infinity);
  assert.ok(heap + mebibytes(config?.bufferLimit ?? Infinity) + restMiB <= 1024);
});
