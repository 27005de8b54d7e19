import { FetchError } from "./fetch-error.ts";
import type { TransferHead } from "./transfer.ts";

/** The identity of the content: two ranges may be joined only by a strong ETag (RFC 9110, 8.8.3). */
export function validatorOf(headers: ReadonlyMap<string, string>): string | undefined {
  const etag = headers.get("etag");
  if (etag !== undefined && !etag.startsWith("W/")) return etag;
  return headers.get("last-modified");
}

/** The complete size from a `206`; undefined if the answer has none. */
export function totalOf(headers: ReadonlyMap<string, string>): number | undefined {
  const total = /^bytes \d+-\d+\/(\d{1,15})$/.exec(headers.get("content-range") ?? "")?.[1];
  return total === undefined ? undefined : Number(total);
}

/** Reads a number of seconds, or a date. */
export function retryAfterMs(headers: ReadonlyMap<string, string>, now = Date.now()): number | undefined {
  const text = headers.get("retry-after");
  if (text === undefined) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

/** The complete size, from the answer to a HEAD or to a GET of one byte. */
export function sizeOf({ status, headers }: TransferHead): number | undefined {
  if (status === 206) return totalOf(headers);
  const length = headers.get("content-length");
  return length !== undefined && /^\d{1,15}$/.test(length) ? Number(length) : undefined;
}

/** The error for a refusal that may be temporary. */
export function unwilling(url: URL, { status, headers }: TransferHead): FetchError {
  const waitMs = retryAfterMs(headers);
  const until = waitMs === undefined ? "" : `; it asks to wait ${Math.ceil(waitMs / 1000)} s`;
  return new FetchError(
    "FetchFailed",
    `${url.host} answers HTTP ${status}${until}`,
    waitMs === undefined ? {} : { retryAfterMs: waitMs },
  );
}
