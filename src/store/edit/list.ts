import { canonicalJson } from "../../lib/canonical.ts";
import { replaced } from "./lines.ts";

export interface ListItem {
  readonly start: number;
  readonly end: number;
  readonly value: unknown;
}

/** The difference between two lists: after `head` items, `added` replaces `gone`. */
export interface ListDifference<T> {
  readonly head: number;
  readonly gone: readonly T[];
  readonly added: readonly unknown[];
}

/** Equal items at both ends stay. */
export function listDifference<T extends { readonly value: unknown }>(
  items: readonly T[],
  next: readonly unknown[],
): ListDifference<T> {
  const old = items.map(({ value }) => canonicalJson(value));
  const wanted = next.map((value) => canonicalJson(value));
  const shorter = Math.min(old.length, wanted.length);
  let head = 0;
  while (head < shorter && old[head] === wanted[head]) head += 1;
  let tail = 0;
  while (tail < shorter - head && old.at(-1 - tail) === wanted.at(-1 - tail)) tail += 1;
  return { head, gone: items.slice(head, items.length - tail), added: next.slice(head, next.length - tail) };
}

/** A text with a `[list, of, items]` changed item by item; undefined where writing the whole list again is simpler. */
export function editInlineList(
  text: string,
  items: readonly ListItem[],
  next: readonly unknown[],
  written: (value: unknown) => string,
): string | undefined {
  if (items.length === 0 || next.length === 0) return undefined;
  const { head, gone, added } = listDifference(items, next);
  const more = added.map(written).join(", ");
  const [first] = gone;
  const last = gone.at(-1);
  const before = items[head - 1];
  const after = items[head + gone.length];
  if (first === undefined || last === undefined) {
    if (before !== undefined) return replaced(text, before.end, before.end, `, ${more}`);
    return after === undefined ? undefined : replaced(text, after.start, after.start, `${more}, `);
  }
  if (added.length > 0) return replaced(text, first.start, last.end, more);
  if (before !== undefined) return replaced(text, before.end, last.end, "");
  return after === undefined ? undefined : replaced(text, first.start, after.start, "");
}
