import { mkdir } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from "diff";
import { CommandError } from "../../cli/client.ts";
import { diagnosticLine } from "../../api/diagnostic.ts";
import { directoryOfKind } from "../../api/names.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import { readText } from "../../lib/read-text.ts";
import type { Declaration } from "../../store/files/manifest.ts";
import { isUnchangedImport, type NewManifest, type DeclaredName } from "./manifests.ts";

interface Change {
  readonly file: string;
  readonly before: string | undefined;
  readonly after: string;
}

export interface Changes {
  readonly changes: readonly Change[];
  /** Manifests that stay as they are, one line each. */
  readonly kept: readonly string[];
}

/** The manifests that are valid by themselves, and for each of the others a line with its first fault. */
export async function validOnly(
  configDir: string,
  manifests: readonly NewManifest[],
): Promise<{ readonly valid: readonly NewManifest[]; readonly faults: readonly string[] }> {
  const { readManifests } = await import("../../store/files/manifest.ts");
  const faults = new Map<NewManifest, string>();
  for (const manifest of manifests)
    for (const { diagnostics } of readManifests(join(configDir, manifest.file), manifest.text)) {
      const [first] = diagnostics;
      if (first === undefined) continue;
      const { path = [], message } = first;
      faults.set(manifest, `${manifest.file}: not written: ${path.join(".")} ${message}`);
    }
  return { valid: manifests.filter((manifest) => !faults.has(manifest)), faults: [...faults.values()] };
}

/** Reads what the files of a configuration directory declare. A file that cannot be read declares nothing here. */
export async function declarationsIn(configDir: string): Promise<readonly Declaration[]> {
  const { listManifests } = await import("../../store/files/listing.ts");
  const { manifestTextOrNothing } = await import("../../store/files/manifest-text.ts");
  const { readManifests } = await import("../../store/files/manifest.ts");
  const { files } = await listManifests(configDir, Object.values(directoryOfKind));
  return [...files.keys()].flatMap((file) => readManifests(file, manifestTextOrNothing(file) ?? ""));
}

/** The names and aliases of all slots, with files below the directory. */
export function slotNames(declarations: readonly Declaration[], configDir: string): readonly DeclaredName[] {
  return declarations.flatMap(({ kind, name, file, spec }) => {
    const aliases = spec !== undefined && "aliases" in spec ? spec.aliases : [];
    const names = kind === "Slot" ? [name, ...aliases] : [];
    return names.map((each) => ({ name: each, file: relative(configDir, file) }));
  });
}

/**
 * Compares manifests with the directory. A file that a person wrote or changed stays, unless `force`; and so does a
 * resource that another file declares.
 */
export async function changesFor(
  configDir: string,
  manifests: readonly NewManifest[],
  { declarations, force }: { readonly declarations: readonly Declaration[]; readonly force: boolean },
): Promise<Changes> {
  const changes: Change[] = [];
  const kept: string[] = [];
  for (const { kind, name, file, text } of manifests) {
    const path = join(configDir, file);
    const elsewhere = declarations.find((each) => each.kind === kind && each.name === name && each.file !== path);
    if (elsewhere !== undefined) {
      kept.push(
        `${file}: ${kind} ${name} is declared in ${relative(configDir, elsewhere.file)}, which stays; remove it there to import it`,
      );
      continue;
    }
    const before = await readText(path);
    if (before === text) continue;
    if (before !== undefined && !isUnchangedImport(before) && !force)
      kept.push(`${file}: a person wrote or changed it, and it stays; --force replaces it`);
    else changes.push({ file, before, after: text });
  }
  return { changes, kept };
}

/** Throws CommandError with a line for each problem that the directory would have with the changes, and not without. */
export async function checkChanges(configDir: string, changes: readonly Change[]): Promise<void> {
  const { validateDirectory } = await import("../../store/files/validate.ts");
  const edits = new Map(changes.map(({ file, after }) => [join(configDir, file), after]));
  const before = new Set((await validateDirectory(configDir)).map(diagnosticLine));
  const found = (await validateDirectory(configDir, { edits })).map(diagnosticLine).filter((line) => !before.has(line));
  if (found.length > 0)
    throw new CommandError(
      "config.invalid",
      `the directory would not be valid:\n${found.join("\n")}`,
      "nothing was written",
    );
}

/** The changes as a unified diff without lines around them, with file names below the directory. */
export function diffOf(changes: readonly Change[]): string {
  return changes
    .map(({ file, before, after }) =>
      createTwoFilesPatch(before === undefined ? "/dev/null" : file, file, before ?? "", after, undefined, undefined, {
        context: 0,
        headerOptions: FILE_HEADERS_ONLY,
      }),
    )
    .join("");
}

/** Writes each file whole. Throws CommandError where this user may not. */
export async function writeChanges(configDir: string, changes: readonly Change[]): Promise<void> {
  for (const { file, after } of changes) {
    const path = join(configDir, file);
    try {
      await mkdir(dirname(path), { recursive: true });
      await writeFileAtomic(path, after, { fsync: true });
    } catch (error) {
      const code = errorCode(error);
      if (code === undefined) throw error;
      throw new CommandError(
        "config.read_only",
        `${path} cannot be written (${code})`,
        "run this as the user that owns the directory; a second run continues",
      );
    }
  }
}
