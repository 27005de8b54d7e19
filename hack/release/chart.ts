import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { normalise, tarball } from "./archive.ts";
import { copy } from "./program.ts";
import { root } from "./ran.ts";

/** The chart as `helm package` writes it, with the version in place of the clone's. */
export async function chartPackage(file: string, version: string, work: string, seconds: number): Promise<void> {
  const staged = join(work, "berth");
  await copy(join(root, "charts/berth"), staged);
  const chart = await readFile(join(staged, "Chart.yaml"), "utf8");
  const own = chart.replace(/^(version|appVersion): .*$/gm, `$1: ${version}`);
  await writeFile(join(staged, "Chart.yaml"), own);
  await normalise(staged, seconds);
  await tarball(file, work, "berth", seconds);
}
