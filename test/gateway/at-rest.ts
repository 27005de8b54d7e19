import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { startGateway } from "../support/gateway.ts";

// Prints the bytes that a gateway holds at rest, after requests: with the directory of the built pages as its argument of
// the pages and all their files, without one as many of the API.
const [pages] = process.argv.slice(2);
await using gateway = await startGateway({
  slots: { primary: {} },
  ...(pages === undefined ? {} : { gateway: { pages } }),
});
const files = async (page: string, at: string): Promise<readonly string[]> =>
  (await readdir(join(pages ?? "", page, "assets"))).filter((name) => !name.endsWith(".gz")).map((name) => at + name);
const paths =
  pages === undefined
    ? Array.from({ length: 6 }, () => "/api/status")
    : ["/", "/chat/", ...(await files("dashboard", "/ui/assets/")), ...(await files("chat", "/chat/assets/"))];
for (let round = 0; round < 20; round += 1)
  for (const path of paths) await (await fetch(new URL(path, gateway.url))).arrayBuffer();

/** The least of some looks: what is being collected is not held. */
let leastBytes = Number.POSITIVE_INFINITY;
for (let look = 0; look < 10; look += 1) {
  globalThis.gc?.();
  await delay(20);
  const { heapUsed, external } = process.memoryUsage();
  leastBytes = Math.min(leastBytes, heapUsed + external);
}
process.stdout.write(`${leastBytes}\n`);
