import { copyFile, mkdir, mkdtemp, realpath, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { existsSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { CommandError } from "../../cli/client.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { readSmallText, UnfitFile } from "../../lib/small-file.ts";

interface Change {
  readonly file: string;
  readonly before: string;
  readonly after: string;
}

/**
 * `berth config migrate`: brings the files of a configuration directory to this version's spelling, after a copy of
 * each changed file. With `isCheck` it only reports. Returns the text for standard output, and the number of changed
 * files.
 */
export async function migrateConfig(
  directory: string,
  { isCheck, now, stateDir }: { isCheck: boolean; now: Date; stateDir: string | undefined },
): Promise<{ text: string; count: number }> {
  const configDir = resolve(directory);
  const changes = await changesIn(configDir);
  const diffs = changes.map((change) => diff(configDir, change)).join("");
  const count = changes.length;
  if (count === 0) return { text: `${configDir}: nothing to migrate\n`, count };
  const files = count === 1 ? "1 file" : `${count} files`;
  if (isCheck) return { text: `${diffs}${files} would change\n`, count };
  const backup = await backupPlace(stateDir, now.toISOString().replaceAll(/[:.]/g, "-"));
  for (const { file } of changes) {
    const kept = join(backup, relative(configDir, file));
    await mkdir(dirname(kept), { recursive: true });
    await copyFile(file, kept);
  }
  for (const { file, after } of changes) {
    const target = await realpath(file);
    await writeFileAtomic(target, after, { fsync: true, mode: (await stat(target)).mode & 0o777 });
  }
  return { text: `${diffs}${files} migrated; the previous files are in ${backup}\n`, count };
}

/**
 * In the state directory, since many people keep the configuration in Git; in a temporary one where that cannot be
 * written.
 */
async function backupPlace(stateDir: string | undefined, name: string): Promise<string> {
  if (stateDir !== undefined) {
    const place = join(stateDir, "backups", name);
    const made = await mkdir(place, { recursive: true, mode: 0o700 }).then(
      () => true,
      () => false,
    );
    if (made) return place;
  }
  return await mkdtemp(join(tmpdir(), "berth-migrate-"));
}

async function changesIn(configDir: string): Promise<Change[]> {
  const { listManifests } = await import("../../store/files/listing.ts");
  const { manifestLimitBytes } = await import("../../store/files/manifest-limit.ts");
  const { readManifestText, UntrustedManifest } = await import("../../store/files/manifest-text.ts");
  const { directoryOfKind } = await import("../../api/names.ts");
  const { migrated } = await import("../../store/files/migrate.ts");
  const listing = await listManifests(configDir, Object.values(directoryOfKind));
  const [problem] = listing.problems;
  if (problem !== undefined)
    throw new CommandError(
      "config.unreadable",
      problem.message,
      "name another directory, or run this as the user that owns it",
    );
  const settings = join(configDir, "berth.toml");
  const changes: Change[] = [];
  const read = async (file: string): Promise<string> =>
    file === settings ? await readSmallText(file, manifestLimitBytes) : readManifestText(file);
  for (const file of [...(existsSync(settings) ? [settings] : []), ...listing.files.keys()]) {
    const before = await read(file).catch((error: unknown): never => {
      if (error instanceof UntrustedManifest)
        throw new CommandError("config.unreadable", `${relative(configDir, file)} ${error.message}`, undefined);
      const next = "no service reads it either: make it smaller, or move it away";
      if (!(error instanceof UnfitFile)) throw error;
      throw new CommandError("config.unreadable", `${relative(configDir, file)}: ${error.message}`, next);
    });
    const after = migrated(file, before);
    if (after !== before) changes.push({ file, before, after });
  }
  return changes;
}

/** The changed lines; a migration neither adds lines nor removes any. */
function diff(configDir: string, { file, before, after }: Change): string {
  const name = relative(configDir, file);
  const news = after.split("\n");
  const lines = before.split("\n").flatMap((line, index) => {
    const now = news[index] ?? "";
    return line === now ? [] : [`@@ -${index + 1} +${index + 1} @@`, `-${line}`, `+${now}`];
  });
  return `${[`--- ${name}`, `+++ ${name}`, ...lines].join("\n")}\n`;
}
