import { byteText } from "../../api/byte-text.ts";
import { duration } from "../../api/duration.ts";
import type { SavedPlace } from "../../api/saved-context.ts";
import { errorMessage } from "../../lib/error-code.ts";

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
