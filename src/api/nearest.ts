/** The known word within two edits (three for long words), or undefined. Very different words are skipped cheaply. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  const wanted = word.toLowerCase();
  const wantedLetters = lettersOf(wanted);
  let best: string | undefined;
  let limit = word.length > 8 ? 3 : word.length > 3 ? 2 : 1;
  for (const candidate of known) {
    if (Math.abs(candidate.length - word.length) > limit) continue;
    const lower = candidate.toLowerCase();
    const letters = lettersOf(lower);
    // One edit adds or removes one letter at most.
    if (bits(wantedLetters & ~letters) > limit || bits(letters & ~wantedLetters) > limit) continue;
    const distance = editDistance(wanted, lower, limit);
    if (distance > limit) continue;
    if (distance === 0) return candidate;
    best = candidate;
    // From here on only closer words count.
    limit = distance - 1;
  }
  return best;
}

/** The end of a message about an unknown word; empty where no known word is near. */
export function didYouMean(near: string | undefined): string {
  return near === undefined ? "" : `; did you mean ${near}?`;
}

/** The number of names that a person reads in one line. */
const mostListed = 10;

/** The end of a message about an unknown name: the near one, and some of those that exist. */
export function knownNames(near: string | undefined, known: Iterable<string>): string {
  const names = [...new Set(known)];
  const more = names.length > mostListed ? ` and ${names.length - mostListed} more` : "";
  const list = names.length === 0 ? "none is known" : `known are ${names.slice(0, mostListed).join(", ")}${more}`;
  return `${didYouMean(near)}${near === undefined ? "; " : " "}${list}`;
}

/** The set of letters, folded into 32 bits. */
function lettersOf(word: string): number {
  let letters = 0;
  for (let at = 0; at < word.length; at++) letters |= 1 << (word.charCodeAt(at) & 31);
  return letters;
}

function bits(mask: number): number {
  let count = 0;
  for (let left = mask; left !== 0; left &= left - 1) count += 1;
  return count;
}

/** Exact up to the limit; some value above it otherwise. Only cells within the limit of the diagonal are computed. */
function editDistance(a: string, b: string, limit: number): number {
  const far = limit + 1;
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = Array.from({ length: b.length + 1 }, () => far);
    next[0] = i;
    let least = i;
    for (let j = Math.max(1, i - limit); j <= Math.min(b.length, i + limit); j++) {
      const substitution = (row[j - 1] ?? far) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const cost = Math.min((row[j] ?? far) + 1, (next[j - 1] ?? far) + 1, substitution);
      next[j] = cost;
      least = Math.min(least, cost);
    }
    if (least > limit) return far;
    row = next;
  }
  return row[b.length] ?? far;
}
