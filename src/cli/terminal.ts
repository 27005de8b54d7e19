import { createInterface } from "node:readline/promises";
import { printable } from "./output.ts";

/** Standard error of a command, or a double of it. */
export interface Screen {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export type Input = NodeJS.ReadableStream & { readonly isTTY?: boolean };
export type Output = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };

/** The progress of a long operation: on a terminal one line that is overwritten, elsewhere a plain line per change. */
export class StatusLine implements Disposable {
  readonly #screen: Screen;
  #last = "";

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  /** `fact` is the state; `detail` (changing numbers) is for the terminal alone. */
  show(fact: string, detail = ""): void {
    if (this.#screen.isTTY === true) {
      const text = printable(`${fact}${detail}`).slice(0, (this.#screen.columns ?? 80) - 1);
      if (text !== this.#last) this.#screen.write(`\r\u001B[K${text}`);
      this.#last = text;
    } else if (fact !== this.#last) {
      this.#screen.write(`${printable(fact)}\n`);
      this.#last = fact;
    }
  }

  /** Prints a line that stays. */
  say(text: string): void {
    this[Symbol.dispose]();
    this.#screen.write(`${printable(text)}\n`);
  }

  /** Clears a terminal's line for further output. */
  [Symbol.dispose](): void {
    if (this.#screen.isTTY === true && this.#last !== "") this.#screen.write("\r\u001B[K");
    this.#last = "";
  }
}

/** Asks for yes or no; anything but `y` or `yes` means no, and so does the end of the input. */
export async function confirm(
  question: string,
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
): Promise<boolean> {
  const lines = createInterface({ input, output });
  try {
    const ended = new Promise<string>((resolve) => lines.once("close", () => resolve("")));
    return /^y(es)?$/i.test((await Promise.race([lines.question(`${question} [y/N] `), ended])).trim());
  } finally {
    lines.close();
  }
}

/** `[#####-----]`, of `done` from 0 to 1. */
export function bar(done: number, width = 20): string {
  const full = Math.round(Math.min(Math.max(done, 0), 1) * width);
  return `[${"#".repeat(full)}${"-".repeat(width - full)}]`;
}
