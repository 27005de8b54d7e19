import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { CommandError } from "../../cli/client.ts";
import { diagnosticLine } from "../../api/diagnostic.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { isRecord } from "../../lib/record.ts";
import { readSmallText, UnfitFile } from "../../lib/small-file.ts";
import type { Omissions, Place } from "./imported.ts";

/** Larger files are no configuration: manifests have the same limit. */
const limitBytes = 1024 ** 2;

/** A fault of one file, which may be one of many. */
export class SourceFault extends CommandError {
  readonly place: Place;
  /** The message without the place. */
  readonly why: string;

  constructor(place: Place & { readonly column?: number | undefined }, why: string, next = "nothing was written") {
    super("import.unreadable", diagnosticLine({ ...place, message: why }), next);
    this.place = place;
    this.why = why;
  }
}

/** A source that has nothing to carry: nothing is written. */
export function emptySource(message: string): CommandError {
  return new CommandError("import.empty", message, "nothing was written");
}

/** The text of a file of at most 1 MiB. Throws SourceFault that names the file and the reason. */
export async function sourceText(file: string): Promise<string> {
  try {
    return await readSmallText(file, limitBytes);
  } catch (error) {
    if (error instanceof UnfitFile) throw new SourceFault({ file }, error.message);
    throw new SourceFault({ file }, whyUnread(error), "name another file, or run this as a user who may read it");
  }
}

/** Why a file or directory could not be read, in words. */
export function whyUnread(error: unknown): string {
  const texts: Readonly<Record<string, string>> = {
    ENOENT: "it is not there",
    ENOTDIR: "it is no directory",
    EISDIR: "it is a directory",
    EACCES: "this user may not read it",
    EPERM: "this user may not read it",
  };
  return texts[errorCode(error) ?? ""] ?? errorMessage(error);
}

/** The paths that lie so deep below a directory, sorted, without hidden ones. A directory that cannot be read is in `omissions`. */
export async function pathsBelow(directory: string, depth: number, omissions: Omissions): Promise<readonly string[]> {
  if (depth === 0) return [directory];
  try {
    const names = (await readdir(directory)).filter((name) => !name.startsWith(".")).toSorted();
    return (await Promise.all(names.map((name) => pathsBelow(join(directory, name), depth - 1, omissions)))).flat();
  } catch (error) {
    // A file that lies beside the directories.
    if (errorCode(error) !== "ENOTDIR") omissions.add({ file: directory }, "its models", whyUnread(error));
    return [];
  }
}

/** A file of YAML or JSON as data. */
export interface SourceDocument {
  /** A map, with YAML's merge keys (`<<`) resolved. */
  readonly value: Readonly<Record<string, unknown>>;
  /** The place of the deepest part of the path. */
  at(...path: readonly (string | number)[]): Place;
}

/**
 * Parses YAML, of which JSON is a part. Throws SourceFault with file, line, column and the fault, without any text of the
 * file, which may hold secrets; and where the file is no map.
 */
export async function parsedSource(file: string, text: string): Promise<SourceDocument> {
  if (text.trim() === "") throw new SourceFault({ file }, "the file is empty");
  const { parseDocuments } = await import("../../store/files/documents.ts");
  const parsed = parseDocuments("source.yaml", text);
  if ("problem" in parsed)
    throw new SourceFault({ file, ...parsed.problem }, `it is no valid YAML or JSON: ${parsed.problem.message}`);
  const [document, second] = parsed.documents;
  if (second !== undefined) throw new SourceFault({ file }, "it holds several documents; import them one by one");
  const value = withMerges(document?.value);
  if (document === undefined || !isRecord(value)) throw new SourceFault({ file, line: 1 }, "it is no map of fields");
  return { value, at: (...path) => ({ file, line: document.place(path)?.line }) };
}

function withMerges(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withMerges);
  if (!isRecord(value)) return value;
  const { "<<": base, ...own } = value;
  const bases = [withMerges(base)].flat().filter(isRecord);
  const fields = Object.entries(own).map(([key, inner]) => [key, withMerges(inner)] as const);
  return Object.assign({}, ...bases.toReversed(), Object.fromEntries(fields));
}

/** The map in a map at that path; empty where there is none. */
export function mapAt(value: unknown, ...path: readonly string[]): Readonly<Record<string, unknown>> {
  let inner = value;
  for (const part of path) inner = isRecord(inner) ? inner[part] : undefined;
  return isRecord(inner) ? inner : {};
}

/** The texts of a list; other items, and another value than a list, are left out. A single text is a list of one. */
export function textsOf(value: unknown): readonly string[] {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  return items.flatMap((item) =>
    typeof item === "string" ? [item] : typeof item === "number" || typeof item === "boolean" ? [String(item)] : [],
  );
}
