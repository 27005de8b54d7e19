import { resolve } from "node:path";
import { notBerth, type Client } from "./client.ts";
import { modelPath } from "./models.ts";
import { bytes, cell, isRecord, recordsIn, render, renderOne, type Column, type Format } from "./output.ts";

interface Removal {
  readonly force: boolean;
  readonly files: boolean;
}

/** The question that `berth model rm --files` asks a person. Throws CommandError, also where the model may not be removed. */
export async function removalQuestion(client: Client, ref: string, force: boolean): Promise<string> {
  const planned = recordOf(await client.send("DELETE", removalPath(ref, { force, files: true }, true)));
  const freed = planned["freed_bytes"];
  const size = typeof freed === "number" ? ` (${bytes(freed)} that no other model has)` : "";
  return `${keptLines(planned)}Delete the files of ${ref}${size}?`;
}

/** Removes a model. Returns the lines for standard output. Throws CommandError. */
export async function removeModel(client: Client, ref: string, removal: Removal): Promise<string> {
  const removed = recordOf(await client.send("DELETE", removalPath(ref, removal, false)));
  const freed = removed["freed_bytes"];
  if (!removal.files) return `${ref}: removed\n`;
  if (typeof freed === "number")
    return `${ref}: removed, with its files; ${bytes(freed)} are free\n${keptLines(removed)}`;
  return `${ref}: removed; the operator deletes its files once it runs\n`;
}

function removalPath(ref: string, { force, files }: Removal, isDryRun: boolean): string {
  const query = [...(force ? ["force=1"] : []), ...(files ? ["files=1"] : []), ...(isDryRun ? ["dry_run=1"] : [])];
  return `${modelPath(ref)}${query.length === 0 ? "" : `?${query.join("&")}`}`;
}

/** Files that stay, each in a line. */
function keptLines({ kept }: Record<string, unknown>): string {
  return recordsIn(kept)
    .map(({ path, reason }) => `${cell(path)} stays: ${cell(reason)}\n`)
    .join("");
}

const isWritten = ({ manifest }: Record<string, unknown>): boolean =>
  isRecord(manifest) && manifest["written"] === true;

const scanColumns: readonly Column[] = [
  { title: "ID", value: (row) => cell(row["id"]) },
  {
    title: "STATE",
    value: (row) => (isWritten(row) ? "declared" : cell(row["state"])),
  },
  { title: "SIZE", value: (row) => bytes(row["size_bytes"]) },
  {
    title: "CAPABILITIES",
    value: ({ capabilities }) => (Array.isArray(capabilities) ? capabilities.map(cell).join(",") : "-") || "-",
  },
  { title: "FILE", value: ({ files }) => cell(Array.isArray(files) ? files[0] : undefined) },
  { title: "MESSAGE", value: (row) => cell(row["message"]) },
  { title: "QUANT", isWide: true, value: (row) => cell(row["quantization"]) },
  { title: "CONTEXT", isWide: true, value: (row) => cell(row["context_length"]) },
];

/** `berth model scan`. Throws CommandError. */
export async function scanTable(
  client: Client,
  { directories, write }: { readonly directories: readonly string[]; readonly write: boolean },
  format: Format,
): Promise<string> {
  const paths = directories.map((directory) => resolve(directory));
  const found = recordsIn(
    recordOf(await client.send("POST", "/api/models/scan", { directories: paths, write }))["data"],
  );
  const text = await render(found, scanColumns, format, "id");
  if (format !== "table" && format !== "wide") return text;
  const fresh = found.filter(({ state }) => state === "new").length;
  if (fresh === 0) return `${text}no new model\n`;
  const models = (count: number): string => `${count} new ${count === 1 ? "model" : "models"}`;
  if (!write) return `${text}${models(fresh)}: --write declares them, -o yaml shows the manifests\n`;
  const written = found.filter(isWritten).length;
  const left = fresh === written ? "" : `, ${fresh - written} not: MESSAGE says why`;
  return `${text}${models(written)} declared${left}\n`;
}

const leftoverColumns: readonly Column[] = [
  { title: "FILE", value: (row) => cell(row["path"]) },
  { title: "KIND", value: (row) => cell(row["kind"]) },
  { title: "SIZE", value: (row) => bytes(row["size_bytes"]) },
  { title: "SOURCE", value: (row) => cell(row["source"]) },
];

/** `berth model gc`. Throws CommandError. */
export async function collectTable(client: Client, isDryRun: boolean, format: Format): Promise<string> {
  const answer = recordOf(await client.send("POST", "/api/models/gc", { dry_run: isDryRun }));
  if (format === "json" || format === "yaml") return await renderOne(answer, format);
  const files = recordsIn(answer["files"]);
  const sum = bytes(answer["bytes"]);
  const end = files.length === 0 ? "nothing to delete" : isDryRun ? `${sum} would be free` : `${sum} are free`;
  const table = files.length === 0 ? "" : await render(files, leftoverColumns, format, "path");
  return `${table}${keptLines(answer)}${end}\n`;
}

function recordOf(answer: unknown): Record<string, unknown> {
  if (isRecord(answer)) return answer;
  throw notBerth("the service answered something else than was asked");
}
