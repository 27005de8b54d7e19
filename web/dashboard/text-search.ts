/** All places of `wanted` within a text. Large and small letters are the same. */
export function placesIn(text: string, wanted: string): readonly number[] {
  const [all, part] = [text.toLowerCase(), wanted.toLowerCase()];
  const places: number[] = [];
  for (let at = all.indexOf(part); at >= 0; at = all.indexOf(part, at + 1)) places.push(at);
  return places;
}

/**
 * The next place of `wanted` within a text after `from`, or before it with the step -1; it goes on at the other end. Large and
 * small letters are the same. Undefined: it is nowhere.
 */
export function placeOf(text: string, wanted: string, from: number, step: 1 | -1): number | undefined {
  const [all, part] = [text.toLowerCase(), wanted.toLowerCase()];
  const next = step === 1 ? all.indexOf(part, from + 1) : from <= 0 ? -1 : all.lastIndexOf(part, from - 1);
  if (next >= 0) return next;
  const other = step === 1 ? all.indexOf(part) : all.lastIndexOf(part);
  return other < 0 ? undefined : other;
}
