import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { isRecord } from "../../src/lib/record.ts";
import { root, ran } from "./ran.ts";

/** One package of a lockfile. */
export interface LockedPackage {
  /** Below the lockfile's directory. */
  readonly path: string;
  readonly name: string;
  readonly version: string;
  readonly license: string;
  /** `sha512-` and the digest of its tarball in base64. */
  readonly integrity: string;
  readonly dependencies: readonly string[];
  readonly isDev: boolean;
  readonly isOptional: boolean;
}

/** The packages that `directory`/package-lock.json names, by path. `directory`: below the clone. */
export async function lockedPackages(directory: string): Promise<ReadonlyMap<string, LockedPackage>> {
  const lock: unknown = JSON.parse(await readFile(join(root, directory, "package-lock.json"), "utf8"));
  const entries = isRecord(lock) && isRecord(lock["packages"]) ? Object.entries(lock["packages"]) : [];
  const found = new Map<string, LockedPackage>();
  for (const [path, entry] of entries) {
    if (path === "" || !isRecord(entry)) continue;
    const { version, license, integrity, dependencies } = entry;
    found.set(path, {
      path,
      name: path.replace(/^.*node_modules\//, ""),
      version: typeof version === "string" ? version : "",
      license: typeof license === "string" ? license : await oldLicense(join(root, directory, path)),
      integrity: typeof integrity === "string" ? integrity : "",
      dependencies: isRecord(dependencies) ? Object.keys(dependencies) : [],
      isDev: entry["dev"] === true,
      isOptional: entry["optional"] === true,
    });
  }
  return found;
}

/** The licence in the form that npm has not read for years: a list in package.json. */
async function oldLicense(directory: string): Promise<string> {
  const text = await readFile(join(directory, "package.json"), "utf8").catch(() => "{}");
  return /"licenses":\s*\[\s*\{[^}]*"type":\s*"([^"]+)"/.exec(text)?.[1] ?? "";
}

/** The packages that a program needs on every machine; those of one platform are optional. */
export function runtimePackages(locked: ReadonlyMap<string, LockedPackage>): readonly LockedPackage[] {
  return [...locked.values()].filter(({ isDev, isOptional }) => !isDev && !isOptional);
}

/** The packages that are bundled into the pages: `hack/web.ts` writes their names. */
export async function pagePackages(locked: ReadonlyMap<string, LockedPackage>): Promise<readonly LockedPackage[]> {
  const names = (await readFile(join(root, "web/dist/.packages"), "utf8")).trim().split("\n");
  return names.map((name) => wanted(locked, name));
}

/** The package of that name at the top of `node_modules`. Throws where the lockfile has none. */
export function wanted(locked: ReadonlyMap<string, LockedPackage>, name: string): LockedPackage {
  const found = locked.get(`node_modules/${name}`);
  if (found === undefined) throw new Error(`package-lock.json has no package ${name}`);
  return found;
}

/**
 * The files of a package: those that are installed below `directory`, else those that `npm pack` fetches into `work`, with
 * the lockfile's hash. Throws where npm cannot fetch it, and for another hash.
 */
export async function filesOf(
  directory: string,
  { path, name, version, integrity }: LockedPackage,
  work: string,
): Promise<string> {
  const installed = join(root, directory, path);
  if (existsSync(installed)) return installed;
  const target = join(work, name);
  await mkdir(target, { recursive: true });
  const packed = join(work, `${name}-packed`);
  await mkdir(packed, { recursive: true });
  const quiet = ["--ignore-scripts", "--loglevel=error", "--fetch-timeout=60000", "--fetch-retries=1"];
  const { status, stderr } = spawnSync("npm", ["pack", ...quiet, `${name}@${version}`], {
    cwd: packed,
    encoding: "utf8",
    stdio: ["ignore", "ignore", "pipe"],
  });
  const [tarball] = await readdir(packed);
  if (status !== 0 || tarball === undefined)
    throw new Error(`npm could not fetch ${name}@${version}: ${stderr.trim().split("\n")[0] ?? ""}`);
  const content = await readFile(join(packed, tarball));
  const found = `sha512-${createHash("sha512").update(content).digest("base64")}`;
  if (found !== integrity)
    throw new Error(`${name}@${version} is not the package of the lockfile: its hash is ${found}, not ${integrity}`);
  await ran("tar", ["-xzf", join(packed, tarball), "-C", target, "--strip-components=1", "--no-same-owner"]);
  return target;
}
