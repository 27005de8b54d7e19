import { cp, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isRecord } from "../../src/lib/record.ts";
import { normalise } from "./archive.ts";
import { lockedPackages, runtimePackages, type LockedPackage } from "./packages.ts";
import { ran, root } from "./ran.ts";

/** The version in the clone's package.json. */
export async function ownVersion(): Promise<string> {
  const { version } = await manifestOf("package.json");
  if (typeof version !== "string") throw new Error("package.json has no version");
  return version;
}

/** The parts of the program that are the clone's own files. */
export const programParts = ["manifests", "crds", "web/dist", "LICENSE"] as const;

/**
 * Writes the program: what its sources compile to, the pages, the manifests, and package.json with that version. The
 * packages are not part of it.
 */
export async function writeProgram(directory: string, version: string): Promise<void> {
  const compiler = "node_modules/typescript/bin/tsc";
  await ran(process.execPath, [compiler, "-p", "tsconfig.build.json", "--outDir", join(directory, "dist")]);
  for (const part of programParts) await copy(join(root, part), join(directory, part));
  const compose = join(directory, "manifests/compose/compose.yaml");
  await writeFile(compose, (await readFile(compose, "utf8")).replace(/(localhost\/berth:)[\w.-]+/, `$1${version}`));
  const { scripts: _scripts, devDependencies: _development, ...manifest } = await manifestOf("package.json");
  await writeJson(join(directory, "package.json"), { ...manifest, version });
}

/** Writes the packages that the program needs, below `directory`/node_modules. */
export async function writeProgramPackages(directory: string): Promise<void> {
  await writePackages(".", runtimePackages(await lockedPackages(".")), directory);
}

/** Copies installed packages of the clone's `source` below `directory`. A package inside another one comes with it. */
export async function writePackages(
  source: string,
  packages: readonly LockedPackage[],
  directory: string,
): Promise<void> {
  for (const { path } of packages)
    if (path.lastIndexOf("node_modules/") === 0) await copy(join(root, source, path), join(directory, path));
}

/** Copies files and directories; a link becomes the file that it leads to. Hidden files of a build stay behind. */
export async function copy(source: string, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  await cp(source, target, {
    recursive: true,
    dereference: true,
    filter: (path) => !leftOut.has(basename(path)),
  });
}

/** Marks of builds, and the sources of llama.cpp beside what was built from them. */
const leftOut: ReadonlySet<string> = new Set([
  ".built-from",
  ".packages",
  ".bin",
  ".package-lock.json",
  "gitRelease.bundle",
]);

/** Writes a JSON file as people read it. */
export async function writeJson(file: string, value: unknown): Promise<void> {
  await writeFile(file, `${JSON.stringify(value, undefined, 2)}\n`);
}

/** A package.json of the clone. */
export async function manifestOf(file: string): Promise<Record<string, unknown>> {
  const manifest: unknown = JSON.parse(await readFile(join(root, file), "utf8"));
  return isRecord(manifest) ? manifest : {};
}

/** The npm package of the program, packed by npm from the files that package.json lists. */
export async function npmPackage(file: string, program: string, work: string): Promise<void> {
  const staged = join(work, "npm");
  await copy(program, staged);
  for (const part of ["bin", "README.md", "engines/src", "engines/package.json", "engines/package-lock.json"])
    await copy(join(root, part), join(staged, part));
  await normalise(staged, 0);
  await ran("npm", ["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination", work], { cwd: staged });
  const [packed = ""] = (await readdir(work)).filter((name) => name.endsWith(".tgz"));
  await cp(join(work, packed), file);
  await rm(join(work, packed));
}
