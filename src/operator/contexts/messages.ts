import { byteText } from "../../api/byte-text.ts";
import { duration } from "../../api/duration.ts";
import type { SavedPlace } from "../../api/saved-context.ts";
import { savePathFlag } from "../../engines/kept-context.ts";
import { errorMessage } from "../../lib/error-code.ts";

const longestRefusal = 300;

/** `3231 tokens, 60 MiB`: of all places together. */
export function sizeText(places: readonly SavedPlace[]): string {
  const tokens = places.reduce((sum, place) => sum + place.tokens, 0);
  const bytes = places.reduce((sum, place) => sum + place.bytes, 0);
  return `${tokens} tokens, ${byteText(bytes)}`;
}

/** Why a call to an engine failed. */
export function textOf(error: unknown, limitMs: number): string {
  const isLate = error instanceof Error && error.name === "TimeoutError";
  return isLate ? `it took more than ${duration(limitMs / 1000)}` : errorMessage(error);
}

/**
 * The line by which an engine refuses its place to save to. llama-server ends with `error while handling argument
 * "--slot-save-path": not a directory: …`, and a version without the flag with `error: invalid argument: …`.
 */
export function refusalIn(output: string): string | undefined {
  const line = output.split("\n").find((each) => /^error\b.*\bargument\b/.test(each) && each.includes(savePathFlag));
  return line?.slice(0, longestRefusal);
}
