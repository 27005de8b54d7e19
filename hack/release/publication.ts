import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import {
  compareVersions,
  releaseIndexSchema,
  type IndexEntry,
  type ReleaseChannel,
  type ReleaseIndex,
} from "../../src/api/release.ts";
import { fileDigest } from "../../src/lib/file-digest.ts";
import { parsePublicKey } from "../../src/lib/minisign.ts";
import { root } from "./ran.ts";
import { signatureText, type MinisignSecretKey } from "./signature.ts";

/** Reads `index.json` of a publisher's directory; without that file, an index without releases. Throws for a file that is no index. */
export async function readIndex(directory: string): Promise<ReleaseIndex> {
  const file = join(directory, "index.json");
  if (!existsSync(file)) return { format: 1, channels: {} };
  try {
    return releaseIndexSchema.parse(JSON.parse(await readFile(file, "utf8")));
  } catch (error) {
    throw new Error(`${file} is not an index of releases: move it away`, { cause: error });
  }
}

/**
 * Throws where the directory has releases that another key has signed, or any key and now none is given: every update
 * would refuse the index.
 */
export async function checkKey(directory: string, key: MinisignSecretKey | undefined): Promise<void> {
  const file = join(directory, "minisign.pub");
  if (!existsSync(file)) return;
  const { id } = parsePublicKey(await readFile(file, "utf8"), file);
  if (key === undefined) throw new Error(`the releases in ${directory} are signed by the key ${id}: name it with KEY=`);
  if (key.id !== id)
    throw new Error(
      `the releases in ${directory} are signed by the key ${id}, and not by ${key.id}; remove ${file} to change the key`,
    );
}

/**
 * The index with that release in its channel, newest first, in place of one with the same version. Archives of that
 * version for other targets stay: each may be made on its own.
 */
export function withEntry(index: ReleaseIndex, channel: ReleaseChannel, entry: IndexEntry): ReleaseIndex {
  const known = index.channels[channel] ?? [];
  const others = known.filter(({ version }) => version !== entry.version);
  const files = { ...known.find(({ version }) => version === entry.version)?.files, ...entry.files };
  const entries = [...others, { ...entry, files }].toSorted((left, right) =>
    compareVersions(right.version, left.version),
  );
  return { format: 1, channels: { ...index.channels, [channel]: entries } };
}

/** Whether `install.sh` of the directory is to install that version: the newest stable one, else the newest of all. */
export function isFirstChoice({ channels: { stable = [], nightly = [] } }: ReleaseIndex, version: string): boolean {
  return [...stable, ...nightly][0]?.version === version;
}

/** The text of `SHA256SUMS`: the lines of the older one, and those of the files instead of older ones. */
export async function sumsOf(older: string, files: readonly string[]): Promise<string> {
  const lines = new Map(
    older
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => [line.slice(66), line]),
  );
  for (const file of files)
    lines.set(basename(file), `${(await fileDigest(file, "sha256")).toString("hex")}  ${basename(file)}`);
  const sorted = [...lines].toSorted(([left], [right]) => (left < right ? -1 : 1));
  return sorted.map(([, line]) => `${line}\n`).join("");
}

/** Writes `FILE.minisig`. The file's name and the version are in the trusted comment. */
export async function sign(file: string, version: string, key: MinisignSecretKey): Promise<void> {
  const comment = `berth ${version}\tfile:${basename(file)}`;
  await writeFile(`${file}.minisig`, signatureText(key, await fileDigest(file, "blake2b512"), comment));
}

/** The script that installs this release. `url` is empty where nobody has said from where it is downloaded. */
export async function installScript(
  version: string,
  url: string,
  sums: { readonly x64: string; readonly arm64: string },
): Promise<string> {
  const text = await readFile(join(root, "hack/release/install.sh"), "utf8");
  const values: Readonly<Record<string, string>> = {
    VERSION: version,
    URL: url,
    SUM_X64: sums.x64,
    SUM_ARM64: sums.arm64,
  };
  return text.replaceAll(/@([A-Z\d_]+)@/g, (_whole, name: string) => values[name] ?? "");
}
