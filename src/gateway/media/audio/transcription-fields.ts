import type { ApiError } from "../../../api/errors.ts";
import { invalidRequest } from "../../../api/problems.ts";
import { foldCase } from "../../../lib/fold-case.ts";
import { asksForEvents, streamPattern } from "./transcription-stream.ts";

const responseFormats = ["json", "text", "srt", "verbose_json", "vtt"] as const;

/** Names of ISO 639 codes; undefined for others. */
const languages = new Intl.DisplayNames("en", { type: "language", fallback: "none" });

/**
 * Checks the fields whose wrong values would crash an engine or be ignored: whisper.cpp throws at a temperature that is
 * no number, fails at an unknown language, and answers JSON for an unknown format. Others pass. Throws ApiError
 * `dispatch.invalid_request`. Returns the value for the engine: whisper.cpp knows languages without a region, and its plain
 * text begins with a blank, so that the gateway takes the text out of JSON.
 */
export function readField(name: string, value: string): string {
  if (name === "response_format" && !responseFormats.some((format) => format === value))
    throw invalidField(name, `must be one of ${responseFormats.join(", ")}`);
  if (name === "temperature") {
    const number = Number(value);
    if (value.trim() === "" || !(number >= 0 && number <= 1)) throw invalidField(name, "must be a number from 0 to 1");
  }
  const language = name === "language" ? withoutRegion(value) : undefined;
  if (language !== undefined && languages.of(language) === undefined)
    throw invalidField(name, `is no language: ${value}; leave it out, and the engine finds out`);
  if (name === "stream" && !streamPattern.test(value)) throw invalidField(name, "must be true or false");
  return name === "response_format" && value === "text" ? "json" : (language ?? value);
}

/** `en` of `en-US`; undefined for other texts, such as `auto` and `german`. */
function withoutRegion(value: string): string | undefined {
  return /^([a-z]{2,3})(?:[-_][a-z0-9]{2,8})*$/i.exec(value)?.[1]?.toLowerCase();
}

/** Checks combinations of the fields so far. Throws ApiError `dispatch.invalid_request`. */
export function checkFields(fields: ReadonlyMap<string, string>): void {
  // Events hold a text: a client of events could read none of the other formats.
  if (asksForEvents(fields) && (fields.get("response_format") ?? "json") !== "json")
    throw invalidField("response_format", "must be json where stream is true");
}

/** Fields on which the gateway acts: the gateway and every parser behind it must use the same part. */
const singleFields: ReadonlySet<string> = new Set(["model", "file", "stream", "response_format", "temperature"]);

/** The names of a form's parts, in their order. */
export class PartNames {
  readonly #singles = new Set<string>();

  /** Throws ApiError `dispatch.invalid_request` where a single field is repeated, or has letters of another case. */
  add(name: string): void {
    const folded = foldCase(name);
    if (!singleFields.has(folded)) return;
    if (name !== folded) throw invalidField(folded, "must be spelled so");
    if (this.#singles.has(name)) throw invalidField(name, "must occur once");
    this.#singles.add(name);
  }
}

/**
 * A name in a part's header, escaped as browsers do
 * (https://html.spec.whatwg.org/multipage/form-control-infrastructure.html#multipart-form-data).
 */
export function escaped(text: string): string {
  return text.replaceAll('"', "%22").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

/** Engines tell a format by the name. */
export function defaultFileName(contentType = ""): string {
  const type = /^(?:audio|video)\/(?:x-)?([a-z0-9]+)/i.exec(contentType)?.[1]?.toLowerCase();
  return type === undefined ? "audio" : `audio.${extensions[type] ?? type}`;
}

/** Where a type has another extension than its own name. */
const extensions: Readonly<Record<string, string>> = { mpeg: "mp3", wave: "wav", vnd: "wav" };

/** `dispatch.invalid_request` about one field. */
export function invalidField(name: string, message: string): ApiError {
  return invalidRequest([{ path: [name.slice(0, 64)], message }]);
}
