import { resolve } from "node:path";
import type { AnswerTo } from "../api/management/call.ts";
import type { ModelRemoval, ScanView } from "../api/management/model-file-views.ts";
import type { Client } from "./client.ts";
import { bytes, cell, render, renderOne, type Column, type Format } from "./output.ts";
import type { Received } from "./received.ts";

interface Removal {
  readonly force: boolean;
  readonly files: boolean;
}

/** The question that `berth model rm --files` asks a person. Throws CommandError, also where the model may not be removed. */
export async function removalQuestion(client: Client, ref: string, force: boolean): Promise<string> {
  const planned = await removal(client, ref, { force, files: true }, true);
  const freed = planned.freed_bytes;
  const size = typeof freed === "number" ? ` (${bytes(freed)} that no other model has)` : "";
  return `${keptLines(planned)}Delete the files of ${ref}${size}?`;
}

/** Removes a model. Returns the lines for standard output. Throws CommandError. */
export async function removeModel(client: Client, ref: string, wanted: Removal): Promise<string> {
  const removed = await removal(client, ref, wanted, false);
  const freed = removed.freed_bytes;
  if (!wanted.files) return `${ref}: removed\n`;
  if (typeof freed === "number")
    return `${ref}: removed, with its files; ${bytes(freed)} are free\n${keptLines(removed)}`;
  return `${ref}: removed; the operator deletes its files once it runs\n`;
}

async function removal(
  client: Client,
  ref: string,
  { force, files }: Removal,
  isDryRun: boolean,
): Promise<Received<ModelRemoval>> {
  const flag = (isOn: boolean): "1" | undefined => (isOn ? "1" : undefined);
  const query = { force: flag(force), files: flag(files), dry_run: flag(isDryRun) };
  return await client.call("DELETE /api/models/{ref}", { params: { ref }, query });
}

/** Files that stay, each in a line. */
function keptLines({ kept }: Pick<Received<ModelRemoval>, "kept">): string {
  return (kept ?? []).map(({ path, reason }) => `${cell(path)} stays: ${cell(reason)}\n`).join("");
}

type Found = NonNullable<Received<ScanView>["data"]>[number];

const isWritten = ({ manifest }: Found): boolean => manifest?.written === true;

const scanColumns: readonly Column<Found>[] = [
  { title: "ID", value: (row) => cell(row.id) },
  {
    title: "STATE",
    value: (row) => (isWritten(row) ? "declared" : cell(row.state)),
  },
  { title: "SIZE", value: (row) => bytes(row.size_bytes) },
  {
    title: "CAPABILITIES",
    value: ({ capabilities }) => cell(capabilities?.join(",")),
  },
  { title: "FILE", value: ({ files }) => cell(files?.[0]) },
  { title: "MESSAGE", value: (row) => cell(row.message) },
  { title: "QUANT", isWide: true, value: (row) => cell(row.quantization) },
  { title: "CONTEXT", isWide: true, value: (row) => cell(row.context_length) },
];

/** `berth model scan`. Throws CommandError. */
export async function scanTable(
  client: Client,
  { directories, write }: { readonly directories: readonly string[]; readonly write: boolean },
  format: Format,
): Promise<string> {
  const paths = directories.map((directory) => resolve(directory));
  const found = await client.list("POST /api/models/scan", { body: { directories: paths, write } });
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

type Leftover = NonNullable<Received<AnswerTo<"POST /api/models/gc">>["files"]>[number];

const leftoverColumns: readonly Column<Leftover>[] = [
  { title: "FILE", value: (row) => cell(row.path) },
  { title: "KIND", value: (row) => cell(row.kind) },
  { title: "SIZE", value: (row) => bytes(row.size_bytes) },
  { title: "SOURCE", value: (row) => cell(row.source) },
];

/** `berth model gc`. Throws CommandError. */
export async function collectTable(client: Client, isDryRun: boolean, format: Format): Promise<string> {
  const answer = await client.one("POST /api/models/gc", "files", { body: { dry_run: isDryRun } });
  if (format === "json" || format === "yaml") return await renderOne(answer, format);
  const files = answer.files ?? [];
  const sum = bytes(answer.bytes);
  const end = files.length === 0 ? "nothing to delete" : isDryRun ? `${sum} would be free` : `${sum} are free`;
  const table = files.length === 0 ? "" : await render(files, leftoverColumns, format, "path");
  return `${table}${keptLines(answer)}${end}\n`;
}
