/** So many last lines of a log stand nowhere else in it, but where it says the same again and again. */
export const knownLines = 200;

/**
 * Where a log that is read again from an earlier place goes on after `known`, its last lines until then: the index in
 * `lines`, at the first such place, so that no line is lost. Undefined: those lines are not there, or not yet.
 */
export function indexAfter(lines: readonly string[], known: readonly string[]): number | undefined {
  for (let at = 0; at + known.length <= lines.length; at += 1)
    if (known.every((line, offset) => lines[at + offset] === line)) return at + known.length;
  return undefined;
}
