import type { CatalogEntry } from "../api/catalog.ts";
import { bytes, cell, render, type Column, type Format } from "../cli/output.ts";
import { CommandError } from "../cli/client.ts";
import { errorMessage } from "../lib/error-code.ts";

/** The answer of a publisher's server about one file of a curated model. */
export interface CheckedFile {
  readonly ref: string;
  readonly source: string;
  readonly verdict: "ok" | "differs" | "unreachable";
  readonly message: string;
  readonly size_bytes: number | null;
  readonly sha256: string | null;
  readonly commit: string | null;
}

const limitMs = 30_000;
/** Sizes in the catalogue are rounded. */
const tolerance = 0.03;

/**
 * Asks for the size and checksum of every file, by HEAD and without fetching it. Throws CommandError for a ref that the
 * catalogue does not have.
 */
export async function checkCatalog(
  entries: readonly CatalogEntry[],
  refs: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<readonly CheckedFile[]> {
  const known = new Map(entries.map((entry) => [entry.spec.ref ?? entry.metadata.name, entry]));
  const missing = refs.find((ref) => !known.has(ref));
  if (missing !== undefined)
    throw new CommandError("check", `the catalogue has no ${missing}`, "see `berth model catalog`");
  const checked: CheckedFile[] = [];
  for (const [ref, entry] of known)
    if (refs.length === 0 || refs.includes(ref)) checked.push(...(await checkEntry(ref, entry, env)));
  return checked;
}

async function checkEntry(
  ref: string,
  { spec, catalog }: CatalogEntry,
  env: NodeJS.ProcessEnv,
): Promise<CheckedFile[]> {
  const { filesOf } = await import("../models/fetch/wanted-model.ts");
  const files = filesOf(spec);
  const found: CheckedFile[] = [];
  for (const { source, sha256 } of files) {
    try {
      const known = await askAbout(source, env);
      const declared = spec.sizeBytes ?? catalog.aboutBytes;
      const problems = [
        ...(files.length === 1 ? sizeProblem(known.sizeBytes, declared, spec.sizeBytes !== undefined) : []),
        ...(sha256 !== undefined && known.sha256 !== undefined && sha256 !== known.sha256
          ? ["the checksum differs from the catalogue's"]
          : []),
      ];
      found.push({
        ref,
        source,
        verdict: problems.length === 0 ? "ok" : "differs",
        message: problems.join("; "),
        size_bytes: known.sizeBytes ?? null,
        sha256: known.sha256 ?? null,
        commit: known.commit ?? null,
      });
    } catch (error) {
      const nothing = { size_bytes: null, sha256: null, commit: null };
      found.push({ ref, source, verdict: "unreachable", message: errorMessage(error), ...nothing });
    }
  }
  return found;
}

async function askAbout(text: string, env: NodeJS.ProcessEnv) {
  const { askSource } = await import("../models/fetch/address.ts");
  return await askSource(text, env, AbortSignal.timeout(limitMs));
}

function sizeProblem(size: number | undefined, declared: number, isExact: boolean): string[] {
  if (size === undefined) return ["the server does not say its size"];
  const isRight = isExact ? size === declared : Math.abs(size / declared - 1) <= tolerance;
  return isRight ? [] : [`it has ${bytes(size)}, the catalogue says ${isExact ? "" : "about "}${bytes(declared)}`];
}

const columns: readonly Column[] = [
  { title: "REF", value: (row) => cell(row["ref"]) },
  { title: "CHECK", value: (row) => cell(row["verdict"]), colour: (text) => (text === "ok" ? "green" : "red") },
  { title: "SIZE", value: (row) => bytes(row["size_bytes"]) },
  { title: "SHA-256", isWide: true, value: (row) => cell(row["sha256"]) },
  { title: "COMMIT", isWide: true, value: (row) => cell(row["commit"]).slice(0, 12) },
  { title: "SOURCE", value: (row) => cell(row["source"]) },
  { title: "WHY", value: (row) => cell(row["message"] === "" ? null : row["message"]) },
];

export async function checkText(rows: readonly CheckedFile[], format: Format): Promise<string> {
  return await render(
    rows.map((row) => ({ ...row })),
    columns,
    format,
    "ref",
  );
}
