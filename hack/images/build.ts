/** `make images [DIRECTORY]`: tar files of both images, for `ctr images import`, `k3s ctr images import`, `docker load`. */
import { mkdir, rename } from "node:fs/promises";
import { join, resolve } from "node:path";
import { berthArchive } from "./berth.ts";
import { embeddedArchive } from "./embedded.ts";

const directory = resolve(process.argv[2] ?? "images");
await mkdir(directory, { recursive: true });
for (const [file, make] of [
  ["berth.tar", berthArchive],
  ["berth-embedded.tar", embeddedArchive],
] as const) {
  const path = join(directory, file);
  const name = await make(`${path}.part`);
  await rename(`${path}.part`, path);
  process.stdout.write(`${path}: ${name}\n`);
}
