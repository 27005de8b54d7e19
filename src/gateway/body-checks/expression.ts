/** The parts of a grammar's rule or a regular expression that decide its expansion. */
export type Expression =
  | { readonly kind: "character" }
  | { readonly kind: "rule"; readonly name: string }
  | { readonly kind: "sequence"; readonly of: readonly Expression[] }
  | { readonly kind: "either"; readonly of: readonly Expression[] }
  | { readonly kind: "repeat"; readonly of: Expression; readonly min: number; readonly max: number };

/** The text is invalid, or too large to be checked. */
export class UnfitConstraint extends Error {
  override readonly name = "UnfitConstraint";
}

/** Nested groups: llama.cpp parses them by recursion, and crashes at the end of its stack. */
const depthLimit = 64;
const alternativeLimit = 2000;
/** Copies by repetitions, all together: llama.cpp writes each of them out. */
const copyLimit = 100_000;

const quantifier = /[*+?]|\{(\d{0,9})(,?)(\d{0,9})\}/y;

/** Parses expressions from a text; the two languages differ in their simple parts alone. */
export abstract class ExpressionReader {
  protected readonly text: string;
  protected at = 0;
  #depth = 0;
  #copies = 0;

  constructor(text: string) {
    this.text = text;
  }

  protected abstract skip(): void;
  /** The next simple part; undefined at the end of a sequence. */
  protected abstract part(): Expression | undefined;

  protected either(): Expression {
    const of = [this.#sequence()];
    while (this.text[this.at] === "|") {
      this.at += 1;
      this.skip();
      of.push(this.#sequence());
      if (of.length > alternativeLimit)
        throw new UnfitConstraint(`has more than ${alternativeLimit} alternatives in one place`);
    }
    const [only] = of;
    return of.length === 1 && only !== undefined ? only : { kind: "either", of };
  }

  /** The content of a group after its opening parenthesis. */
  protected group(): Expression {
    this.#depth += 1;
    if (this.#depth > depthLimit) throw new UnfitConstraint(`has groups nested deeper than ${depthLimit}`);
    this.skip();
    const inner = this.either();
    if (this.text[this.at] !== ")") throw this.unreadable();
    this.at += 1;
    this.#depth -= 1;
    return inner;
  }

  protected match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }

  protected unreadable(): UnfitConstraint {
    return new UnfitConstraint(`cannot be read at character ${this.at}`);
  }

  #sequence(): Expression {
    const of: Expression[] = [];
    for (;;) {
      const from = this.at;
      let part = this.part();
      if (part === undefined) return { kind: "sequence", of };
      let written = this.at - from;
      this.skip();
      let repetitions = 0;
      for (let times = this.#quantifier(); times !== undefined; times = this.#quantifier()) {
        // llama.cpp counts from one to the other without an end, and takes all memory of the machine.
        if (times.max < times.min)
          throw new UnfitConstraint(`repeats at least ${times.min} and at most ${times.max} times`);
        repetitions += 1;
        if (repetitions > depthLimit) throw new UnfitConstraint(`repeats one part in more than ${depthLimit} ways`);
        // Nested repetitions multiply: `a{9}{9}` is 81 times as long as `a`.
        written *= Number.isFinite(times.max) ? times.max : times.min + 1;
        this.#copies += written;
        if (this.#copies > copyLimit) throw new UnfitConstraint("repeats too much too often");
        part = { kind: "repeat", of: part, ...times };
        this.skip();
      }
      of.push(part);
    }
  }

  #quantifier(): { readonly min: number; readonly max: number } | undefined {
    quantifier.lastIndex = this.at;
    const found = quantifier.exec(this.text);
    if (found === null) return undefined;
    this.at += found[0].length;
    const [sign, min = "", comma = "", max = ""] = found;
    if (sign === "*") return { min: 0, max: Infinity };
    if (sign === "+") return { min: 1, max: Infinity };
    if (sign === "?") return { min: 0, max: 1 };
    const from = Number(min);
    return { min: from, max: comma === "" ? from : max === "" ? Infinity : Number(max) };
  }
}
