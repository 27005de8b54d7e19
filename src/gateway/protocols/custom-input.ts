import { parseForeign } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";

/** The beginning of the arguments, up to the text. */
const opening = /^\s*\{\s*"input"\s*:\s*"/;
/** Arguments that are longer without this beginning have another form. */
const openingLimit = 64;

/** Reads the text of a call whose arguments arrive in pieces. */
export interface CallText {
  /** The part of the text that can be read now. */
  add(piece: string): string;
  /** The rest of the text, after the last piece. */
  end(): string;
}

/** The arguments of a function. */
export const wholeArguments: CallText = { add: (piece) => piece, end: () => "" };

/**
 * The input of a custom tool, from the arguments of its function: `{"input": "…"}`. Arguments of another form are the
 * input themselves, so that the tool tells the model about them.
 */
export class CustomInput implements CallText {
  #form: "unknown" | "text" | "over" | "other" = "unknown";
  /** The part of the arguments that has not been read. */
  #rest = "";
  /** The first half of a character whose second half has not arrived. */
  #half = "";

  add(piece: string): string {
    if (this.#form === "over") return "";
    this.#rest += piece;
    if (this.#form === "unknown") this.#open();
    return this.#form === "text" ? this.#read() : "";
  }

  end(): string {
    if (this.#form === "text" || this.#form === "over") return "";
    const value = parseForeign(this.#rest);
    return isRecord(value) && typeof value["input"] === "string" ? value["input"] : this.#rest;
  }

  #open(): void {
    const found = opening.exec(this.#rest)?.[0];
    if (found !== undefined) {
      this.#form = "text";
      this.#rest = this.#rest.slice(found.length);
    } else if (this.#rest.length > openingLimit) this.#form = "other";
  }

  #read(): string {
    const rest = this.#rest;
    let end = 0;
    for (;;) {
      const sign = rest[end];
      if (sign === '"') this.#form = "over";
      const length = sign !== "\\" ? 1 : rest[end + 1] === "u" ? 6 : 2;
      if (sign === '"' || end + length > rest.length) break;
      end += length;
    }
    this.#rest = rest.slice(end);
    const written = rest.slice(0, end);
    const read = parseForeign(`"${written}"`);
    const text = this.#half + (typeof read === "string" ? read : written);
    this.#half = /[\ud800-\udbff]$/.exec(text)?.[0] ?? "";
    return text.slice(0, text.length - this.#half.length);
  }
}

/** The same of whole arguments. */
export function customInput(text: string): string {
  const reader = new CustomInput();
  return reader.add(text) + reader.end();
}
