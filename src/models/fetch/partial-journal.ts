import { readFile } from "node:fs/promises";
import { errorCode } from "../../lib/error-code.ts";
import { parseJson } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";

/** The content of which a partial file is a part. */
export interface Content {
  readonly source: string;
  readonly sizeBytes: number;
  /** ETag or time of the last change; undefined: the server gives none. */
  readonly validator: string | undefined;
  readonly sha256: string | undefined;
}

/** A file is fetched, recorded and checked in blocks of this size; the last block may be shorter. */
export const blockBytes = 1024 * 1024;

/** The checksum that a journal has of a complete block. */
export interface BlockSum {
  /**
   * `own`: the block's CRC-32. `prefix`: the first 32 bits of the SHA-256 of the file up to the end of the block, which
   * the running hash gives in 2 µs where a CRC-32 takes 240.
   */
  readonly of: "own" | "prefix";
  readonly sum: number;
}

interface Journal {
  readonly content: Content;
  /** The complete blocks, by their index. */
  readonly blocks: ReadonlyMap<number, BlockSum>;
  /** The SHA-256 of the whole file, once the file is in the store. */
  readonly digest: string | undefined;
}

/** The first line of a journal. */
export function headLine(content: Content): string {
  return `${JSON.stringify({ schema: 1, blockBytes, ...content })}\n`;
}

/**
 * The line of one block on disk. It is written without a sync: blocks are checked against the journal before use. All
 * such lines have one length, so that a truncated line is recognised.
 */
export function blockLine(index: number, { of, sum }: BlockSum): string {
  return `${hex(index)}${of === "own" ? " " : "="}${hex(sum)}\n`;
}

const hex = (value: number): string => value.toString(16).padStart(8, "0");

/** The rest of a journal once the file is in the store, kept while other files of the model are missing. */
export function doneLine(sha256: string): string {
  return `done ${sha256}\n`;
}

/**
 * Reads a journal, whose last line may be truncated by the end of a process. Undefined if there is no journal, or if
 * its first line is not of this version. Rejects with the system's other errors.
 */
export async function readJournal(path: string): Promise<Journal | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
  const end = text.indexOf("\n");
  const content = end === -1 ? undefined : contentOf(parseJson(text.slice(0, end)));
  if (content === undefined) return undefined;
  const blocks = new Map<number, BlockSum>();
  const count = Math.ceil(content.sizeBytes / blockBytes);
  for (const [, index = "", mark, sum = ""] of text.slice(end + 1).matchAll(/^([0-9a-f]{8})([ =])([0-9a-f]{8})\n/gm)) {
    const at = Number.parseInt(index, 16);
    if (at < count) blocks.set(at, { of: mark === " " ? "own" : "prefix", sum: Number.parseInt(sum, 16) });
  }
  return { content, blocks, digest: /^done ([0-9a-f]{64})\n/m.exec(text.slice(end + 1))?.[1] };
}

/** Whether the partial file belongs to the server's present content. Without an identity this is unknown. */
export function isSameContent(known: Content, now: Content): boolean {
  if (known.source !== now.source || known.sizeBytes !== now.sizeBytes) return false;
  if (now.sha256 !== undefined || known.sha256 !== undefined) return known.sha256 === now.sha256;
  return now.validator !== undefined && known.validator === now.validator;
}

function contentOf(value: unknown): Content | undefined {
  if (!isRecord(value) || value["schema"] !== 1 || value["blockBytes"] !== blockBytes) return undefined;
  const { source, sizeBytes, validator, sha256 } = value;
  if (typeof source !== "string" || typeof sizeBytes !== "number" || !Number.isSafeInteger(sizeBytes)) return undefined;
  return {
    source,
    sizeBytes,
    validator: typeof validator === "string" ? validator : undefined,
    sha256: typeof sha256 === "string" ? sha256 : undefined,
  };
}
