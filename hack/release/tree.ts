import { readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stateFormat, type Release, type ReleaseTarget } from "../../src/api/release.ts";
import { normalise } from "./archive.ts";
import { billOfMaterials } from "./bill-of-materials.ts";
import { licencesOf } from "./licences.ts";
import { copy, writeJson, writePackages } from "./program.ts";
import { root } from "./ran.ts";
import { shippedFor } from "./shipped.ts";

export interface TreeOptions {
  readonly version: string;
  /** The address of the index, for `release.json`. */
  readonly updateUrl: string | undefined;
  /** The text of `minisign.pub`. */
  readonly publicKey: string | undefined;
  /** The time of every file, in seconds. */
  readonly seconds: number;
  /** A directory for packages of another processor. */
  readonly work: string;
}

const launcher =
  '#!/bin/sh\n# Installs this release: `./install.sh --help`.\nexec "$(dirname "$0")/bin/berth" install "$@"\n';

/**
 * Makes the tree of a release in `directory`. Resolves with the room that it needs: each file rounded up to 4 KiB, as a
 * disk has it, and 4 KiB for each directory.
 */
export async function writeTree(
  directory: string,
  program: string,
  target: ReleaseTarget,
  { version, updateUrl, publicKey, seconds, work }: TreeOptions,
): Promise<number> {
  const at = (...names: string[]): string => join(directory, ...names);
  const shipped = await shippedFor(target, version, work);
  const { node, library, enginePackages, places } = shipped;
  await copy(program, directory);
  await writePackages(".", shipped.program, directory);
  await copy(join(root, "bin"), at("bin"));
  await copy(join(places.get(node) ?? "", "bin/node"), at("bin/node"));
  for (const part of ["src", "package.json", "package-lock.json"])
    await copy(join(root, "engines", part), at("engines", part));
  await writePackages(
    "engines",
    enginePackages.filter((each) => each !== library),
    at("engines"),
  );
  await copy(places.get(library) ?? "", at("engines", library.path));
  await writeFile(at("install.sh"), launcher, { mode: 0o755 });
  if (publicKey !== undefined) await writeFile(at("minisign.pub"), publicKey);
  await writeJson(at("sbom.cdx.json"), await billOfMaterials(shipped));
  await writeFile(at("THIRD-PARTY-LICENSES.txt"), await licencesOf(shipped, work));
  const unpackedBytes = await sizeBelow(directory);
  await writeJson(at("release.json"), {
    version,
    target,
    state_format: stateFormat,
    ...(updateUrl === undefined ? {} : { update_url: updateUrl }),
    unpacked_bytes: unpackedBytes,
  } satisfies Release);
  await normalise(directory, seconds);
  return unpackedBytes;
}

export async function sizeBelow(directory: string): Promise<number> {
  let sum = 0;
  for (const name of await readdir(directory, { recursive: true })) {
    const status = await stat(join(directory, name));
    // The size of a directory depends on the file system.
    sum += status.isDirectory() ? 4096 : Math.ceil(status.size / 4096) * 4096;
  }
  return sum;
}
