import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ReleaseTarget } from "../../src/api/release.ts";
import { isRecord } from "../../src/lib/record.ts";
import type { LockedPackage } from "./packages.ts";
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
  readonly node: LockedPackage;
  /** The files of packages that may be another processor's. */
  readonly places: ReadonlyMap<LockedPackage, string>;
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
