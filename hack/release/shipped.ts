import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ReleaseTarget } from "../../src/api/release.ts";
import { isRecord } from "../../src/lib/record.ts";
import { filesOf, lockedPackages, pagePackages, runtimePackages, wanted, type LockedPackage } from "./packages.ts";
import { root } from "./ran.ts";

/** The parts of a release that others have written. */
export interface Shipped {
  readonly version: string;
  readonly target: ReleaseTarget;
  /** Every package of both lockfiles, by path. */
  readonly own: ReadonlyMap<string, LockedPackage>;
  readonly engine: ReadonlyMap<string, LockedPackage>;
  readonly program: readonly LockedPackage[];
  /** Bundled into the pages. */
  readonly pages: readonly LockedPackage[];
  readonly enginePackages: readonly LockedPackage[];
  /** Node itself, and llama.cpp as it was built for the target: the packages of one platform. */
  readonly node: LockedPackage;
  readonly library: LockedPackage;
  /** The directories of the packages' files. */
  readonly places: ReadonlyMap<LockedPackage, string>;
}

/**
 * The parts of the clone's own release for that target. Packages of another processor are fetched into `work`. Throws where
 * one cannot be fetched or has another hash.
 */
export async function shippedFor(target: ReleaseTarget, version: string, work: string): Promise<Shipped> {
  const own = await lockedPackages(".");
  const engine = await lockedPackages("engines");
  const program = runtimePackages(own);
  const pages = await pagePackages(own);
  const node = wanted(own, `node-${target}`);
  const library = wanted(engine, `@node-llama-cpp/${target}`);
  const enginePackages = [...runtimePackages(engine), library];
  const places = new Map<LockedPackage, string>();
  for (const each of [...program, ...pages]) places.set(each, join(root, each.path));
  for (const each of enginePackages) places.set(each, join(root, "engines", each.path));
  places.set(node, await filesOf(".", node, work));
  places.set(library, await filesOf("engines", library, work));
  return { version, target, own, engine, program, pages, enginePackages, node, library, places };
}

const llamaFiles = join(root, "engines/node_modules/node-llama-cpp/llama");

/** The sources of llama.cpp that node-llama-cpp was built from, as a Git bundle. */
export const llamaBundle = join(llamaFiles, "gitRelease.bundle");

/** The version of llama.cpp and the repository that it comes from. */
export async function llamaRelease(): Promise<{ readonly tag: string; readonly repository: string }> {
  const told: unknown = JSON.parse(await readFile(join(llamaFiles, "llama.cpp.info.json"), "utf8"));
  const { tag, llamaCppGithubRepo: repository } = isRecord(told) ? told : {};
  if (typeof tag !== "string" || typeof repository !== "string")
    throw new Error("node-llama-cpp does not say which llama.cpp it was built from");
  return { tag, repository };
}
