/** The text is invalid, or an engine would not survive it. */
export class UnfitConstraint extends Error {
  override readonly name = "UnfitConstraint";
}

/** Characters of all grammars and patterns of a body: reading takes time for each. */
const lengthLimit = 131_072;
/** Groups in groups, and rules that begin with rules: llama.cpp reads both by recursion. */
const depthLimit = 256;
/** llama.cpp tries every token of its vocabulary on each of the alternatives at one place. */
const wayLimit = 2000;
/** Parts in a row that may be missing: for each letter, llama.cpp takes a time that grows with their third power. */
const gapLimit = 256;
/** Copies by repetitions, in characters: llama.cpp writes each of them out. */
const copyLimit = 100_000;

/** The characters of grammars and patterns that a body may still have. */
export class LengthBudget {
  #left = lengthLimit;

  take(text: string): void {
    this.#left -= text.length;
    if (this.#left < 0) throw new UnfitConstraint(`is longer than ${lengthLimit} characters, with all patterns`);
  }
}

/** Throws UnfitConstraint for more alternatives at one place than an engine can follow. */
export function checkWays(ways: number): void {
  if (ways > wayLimit) throw new UnfitConstraint(`leaves more than ${wayLimit} ways open at one place`);
}

function checkGaps(gaps: number): void {
  if (gaps > gapLimit) throw new UnfitConstraint(`has more than ${gapLimit} parts in a row that may be missing`);
}

/** The costs of a part of an expression for an engine. */
interface Extent {
  /** Characters, with each repetition written out. */
  readonly size: number;
  /** The alternatives at its beginning, of which llama.cpp follows all at once. */
  readonly ways: number;
  /** The parts in a row, from its beginning on, that may be missing. */
  readonly gaps: number;
  readonly mayBeEmpty: boolean;
}

const nothings: ReadonlySet<string> = new Set(['""', "[]", "[^]", "^", "$"]);
const nothing: Extent = { size: 0, ways: 0, gaps: 0, mayBeEmpty: true };
/** A rule at a place where its beginning does not count, or that no rule defines: llama.cpp refuses the latter. */
const oneWay: Extent = { size: 1, ways: 1, gaps: 0, mayBeEmpty: false };

/**
 * Measures expressions that were cut into tokens: `""`, `[]`, `[^]`, `^` and `$` match nothing, `(` and `(?:` open a group, the
 * name of a rule calls it, and any other token matches a text.
 */
export class ExpressionReader {
  readonly #tokens: readonly string[];
  /** The offset of each rule's first token. */
  readonly #rules: ReadonlyMap<string, number>;
  readonly #known = new Map<string, Extent | undefined>();
  #at = 0;
  #depth = 0;
  #copies = 0;

  constructor(tokens: readonly string[], rules: ReadonlyMap<string, number> = new Map()) {
    this.#tokens = tokens;
    this.#rules = rules;
    for (const name of rules.keys()) this.#called(name, true);
  }

  /** Checks the alternatives from a token on. Returns the offset of the token after them. Throws UnfitConstraint. */
  check(from: number): number {
    this.#nested(from, true);
    return this.#at;
  }

  #nested(from: number, isFirst: boolean): Extent {
    this.#depth += 1;
    if (this.#depth > depthLimit) throw new UnfitConstraint(`is nested deeper than ${depthLimit} groups and rules`);
    this.#at = from;
    let { size, ways, gaps, mayBeEmpty } = this.#sequence(isFirst);
    while (this.#tokens[this.#at] === "|") {
      this.#at += 1;
      const next = this.#sequence(isFirst);
      size += next.size;
      ways += next.ways;
      gaps = Math.max(gaps, next.gaps);
      mayBeEmpty ||= next.mayBeEmpty;
      checkWays(ways);
    }
    this.#depth -= 1;
    return { size, ways, gaps: mayBeEmpty ? Math.max(1, gaps) : gaps, mayBeEmpty };
  }

  /** `isFirst`: the ways at its beginning are counted. */
  #sequence(isFirst: boolean): Extent {
    let size = 0;
    let ways = 0;
    /** The ways at the latest place: of the next part, and of all before it that may be empty. */
    let open = 0;
    let gaps = 0;
    let openGaps = 0;
    let mayBeEmpty = true;
    let mayPass = true;
    while (!this.#isEnd()) {
      const part = this.#repeated(isFirst && mayBeEmpty);
      size += part.size;
      open = (mayPass ? open : 0) + part.ways;
      openGaps = (mayPass ? openGaps : 0) + part.gaps;
      checkWays(open);
      checkGaps(openGaps);
      if (mayBeEmpty) [ways, gaps] = [open, openGaps];
      mayPass = part.mayBeEmpty;
      mayBeEmpty &&= mayPass;
    }
    // An alternative of nothing is one, too.
    return { size, ways: Math.max(1, ways), gaps, mayBeEmpty };
  }

  #isEnd(): boolean {
    const token = this.#tokens[this.#at];
    return token === undefined || token === "|" || token === ")" || this.#tokens[this.#at + 1] === "::=";
  }

  #repeated(isFirst: boolean): Extent {
    let part = this.#part(isFirst);
    for (;;) {
      const times = repetitions(this.#tokens[this.#at]);
      if (times === undefined) return part;
      const { min, max } = times;
      // llama.cpp counts from one to the other without an end, and takes all memory of the machine.
      if (min > max) throw new UnfitConstraint(`repeats at least ${min} and at most ${max} times`);
      // Earlier versions of llama.cpp follow it without an end.
      if (part.mayBeEmpty && max === Infinity) throw new UnfitConstraint("repeats without an end what may be empty");
      const count = Math.max(1, Number.isFinite(max) ? max : min + 1);
      const size = part.size * count;
      this.#copies += size - part.size;
      if (this.#copies > copyLimit) throw new UnfitConstraint("repeats too much too often");
      const row = part.mayBeEmpty ? count : 1;
      const mayBeEmpty = part.mayBeEmpty || min === 0;
      const gaps = mayBeEmpty ? Math.max(1, part.gaps * row) : part.gaps;
      part = { size, ways: part.ways * row, gaps, mayBeEmpty };
      this.#at += 1;
    }
  }

  #part(isFirst: boolean): Extent {
    const token = this.#tokens[this.#at] ?? "";
    if (token === "(" || token === "(?:") {
      const inner = this.#nested(this.#at + 1, isFirst);
      if (this.#tokens[this.#at] !== ")") throw new UnfitConstraint("has a group that does not end");
      this.#at += 1;
      // llama.cpp makes a rule of it, and repeats the rule's name.
      return { ...inner, size: 1 };
    }
    this.#at += 1;
    if (nothings.has(token)) return nothing;
    return this.#rules.has(token) ? this.#called(token, isFirst) : { ...oneWay, size: token.length };
  }

  /** A rule is measured at its first call at a beginning; calls at other places may be recursive. */
  #called(name: string, isFirst: boolean): Extent {
    const start = this.#rules.get(name);
    const known = this.#known.get(name);
    if (!isFirst || start === undefined || known !== undefined) return known ?? oneWay;
    // llama.cpp does not notice all of them, and follows them without an end.
    if (this.#known.has(name)) throw new UnfitConstraint("has a rule that begins with itself");
    this.#known.set(name, undefined);
    const at = this.#at;
    const extent = this.#nested(start, true);
    this.#at = at;
    this.#known.set(name, { ...extent, size: 1 });
    return { ...extent, size: 1 };
  }
}

function repetitions(token = ""): { readonly min: number; readonly max: number } | undefined {
  if (token === "*" || token === "+") return { min: token === "+" ? 1 : 0, max: Infinity };
  if (token === "?") return { min: 0, max: 1 };
  if (!token.startsWith("{") || !token.endsWith("}")) return undefined;
  const [least = "", most] = token.slice(1, -1).split(",");
  const min = countIn(least) ?? 0;
  return { min, max: most === undefined ? min : (countIn(most) ?? Infinity) };
}

/** llama.cpp takes the number at the beginning, too: `5a` is 5. */
function countIn(text: string): number | undefined {
  const count = Number.parseInt(text, 10);
  return Number.isNaN(count) ? undefined : count;
}
