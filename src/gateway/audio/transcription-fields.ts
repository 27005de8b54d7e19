import type { ApiError } from "../../api/errors.ts";
import { invalidRequest } from "../../api/problems.ts";
import { asksForEvents, streamPattern } from "./transcription-stream.ts";

const responseFormats = ["json", "text", "srt", "verbose_json", "vtt"] as const;

/**
 * Checks the fields whose wrong values an engine would crash on or ignore: whisper.cpp throws at a temperature that is
 * no number, and answers JSON for a format it does not know. Others pass. Throws ApiError `dispatch.invalid_request`.
 */
export function checkField(name: string, value: string): void {
  if (name === "response_format" && !responseFormats.some((format) => format === value))
    throw invalidField(name, `must be one of ${responseFormats.join(", ")}`);
  if (name === "temperature") {
    const number = Number(value);
    if (value.trim() === "" || !(number >= 0 && number <= 1)) throw invalidField(name, "must be a number from 0 to 1");
  }
  if (name === "stream" && !streamPattern.test(value)) throw invalidField(name, "must be true or false");
}

/** What fields mean together, as far as they have come. Throws ApiError `dispatch.invalid_request`. */
export function checkFields(fields: ReadonlyMap<string, string>): void {
  // Events hold a text: who reads events would find none of the other formats.
  if (asksForEvents(fields) && (fields.get("response_format") ?? "json") !== "json")
    throw invalidField("response_format", "must be json where stream is true");
}

/** Fields on which the gateway acts: it and every reader behind it must mean the same part by each. */
const singleFields: ReadonlySet<string> = new Set(["model", "file", "stream", "response_format", "temperature"]);

/** The names of a form's parts, one after the other. */
export class PartNames {
  readonly #singles = new Set<string>();

  /** Throws ApiError `dispatch.invalid_request` where a single field comes again, or in letters of another case. */
  add(name: string): void {
    const folded = name.toUpperCase().toLowerCase();
    if (!singleFields.has(folded)) return;
    if (name !== folded) throw invalidField(folded, "must be spelled so");
    if (this.#singles.has(name)) throw invalidField(name, "must stand there once");
    this.#singles.add(name);
  }
}

/**
 * A name as it may stand in a part's header, as browsers write it
 * (https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data).
 */
export function escaped(text: string): string {
  return text.replaceAll('"', "%22").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

/** `dispatch.invalid_request` about one field. */
export function invalidField(name: string, message: string): ApiError {
  return invalidRequest([{ path: [name.slice(0, 64)], message }]);
}
