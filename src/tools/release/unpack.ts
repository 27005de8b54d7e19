import { mkdir, readdir, rename, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Release } from "../../api/release.ts";
import { CommandError } from "../../cli/client.ts";
import { bytes as sizeText } from "../../cli/output.ts";
import { syncDirectory } from "../../lib/atomic-file.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { programOutput } from "../../lib/program-output.ts";
import type { Layout } from "../install/layout.ts";
import { releaseAt, updatePlaces } from "./places.ts";

const unpackMs = 600_000;
const versionMs = 60_000;
/** Stays free on the disk beside a release. */
const reserveBytes = 64 * 1024 ** 2;

/** Throws CommandError where the disk of the releases has no room for so many bytes. */
export async function checkRoom({ prefix }: Pick<Layout, "prefix">, neededBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(prefix);
  if (bavail * bsize >= neededBytes + reserveBytes) return;
  throw new CommandError(
    "update.disk_full",
    `${prefix} has ${sizeText(bavail * bsize)} free, and the release needs ${sizeText(neededBytes + reserveBytes)}`,
    "make room there, then run `berth update` again",
  );
}

/**
 * Unpacks the archive, checks that its program starts, and puts it beside the other releases under its version. A release
 * of that version which is there already stays. Returns its `release.json`. Throws CommandError; nothing that a process
 * uses has changed then.
 */
export async function unpackRelease(
  layout: Pick<Layout, "prefix">,
  archive: string,
  check: (release: Release) => Promise<void>,
): Promise<Release> {
  const { unpacked } = updatePlaces(layout);
  await mkdir(unpacked, { mode: 0o755 });
  try {
    const root = await unpack(archive, unpacked);
    const release = await releaseAt(root);
    await check(release);
    await checkProgram(root, release.version);
    // All of the tree is on the disk before its name is.
    await programOutput("sync", ["-f", root], { signal: AbortSignal.timeout(unpackMs) });
    const place = join(layout.prefix, release.version);
    // Renaming onto a directory that is not empty fails.
    await rename(root, place).catch(async (error: unknown) => {
      await releaseAt(place).catch(() => {
        throw error;
      });
    });
    await syncDirectory(layout.prefix);
    return release;
  } finally {
    await rm(unpacked, { recursive: true, force: true });
  }
}

/** Returns the archive's one directory. GNU tar refuses names with `..`, and takes absolute ones as relative. */
async function unpack(archive: string, into: string): Promise<string> {
  const args = ["-xzf", archive, "-C", into, "--no-same-owner", "--no-same-permissions"];
  try {
    // Its messages in English, and names in any language.
    const env = { ...process.env, LC_ALL: "C.UTF-8", LANGUAGE: "" };
    await programOutput("tar", args, { signal: AbortSignal.timeout(unpackMs), env });
  } catch (error) {
    const line = errorMessage(error).split("\n")[0] ?? "";
    if (/No space left|Wrote only/.test(errorMessage(error)))
      throw new CommandError("update.disk_full", `${into} has no room for the release`, "make room, then try again");
    throw new CommandError("update.archive", `the archive cannot be unpacked: ${line}`, "download the release again");
  }
  const names = await readdir(into);
  const [name] = names;
  if (names.length === 1 && name?.startsWith("berth-") === true) return join(into, name);
  throw new CommandError(
    "update.archive",
    `the archive holds ${names.toSorted().slice(0, 3).join(", ") || "nothing"}, and not one directory berth-VERSION`,
    "download the release again",
  );
}

/** Runs the release's own program. Throws CommandError where it does not start, or is another version. */
export async function checkProgram(root: string, version: string): Promise<void> {
  const program = join(root, "bin/berth");
  const said = await programOutput(program, ["--version"], { signal: AbortSignal.timeout(versionMs) }).catch(
    (error: unknown) => {
      throw new CommandError(
        "update.program",
        `the program of ${version} does not start here: ${errorMessage(error).split("\n")[0] ?? ""}`,
        "nothing was changed; ask the publisher of the release",
      );
    },
  );
  if (said.trim() === version) return;
  throw new CommandError(
    "update.program",
    `the program of ${version} says that it is ${said.trim()}`,
    "nothing was changed; ask the publisher of the release",
  );
}
