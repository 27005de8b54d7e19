import { ApiError } from "../../../api/errors.ts";
import { errorIn } from "../../../engines/error-body.ts";
import { isRecord } from "../../../lib/record.ts";
import { parseAnswer } from "../../protocols/json.ts";
import type { AnswerTranslation } from "../../relay/answer-format.ts";
import { fieldsOf } from "../../../lib/json-fields.ts";
import { isParseable, isWholeJson, parseForeign } from "../../../lib/json.ts";

/**
 * The answers of whisper.cpp's server in OpenAI's terms (its examples/server/server.cpp): it reports a failed inference
 * with status 200 and `{"error"}`, undecodable audio with 400 and the text "Invalid request", or, where it converts by
 * ffmpeg, with 500. Fields that every engine has were checked before, so a 400 is about the audio. The
 * text of any engine's answer is joined and trimmed, unless it is too long to be parsed. `fields`: the form's.
 */
export function transcriptionAnswers(fields: ReadonlyMap<string, string>): AnswerTranslation {
  const isText = fields.get("response_format") === "text";
  return {
    contentType: isText ? "text/plain; charset=utf-8" : undefined,

    answer(body) {
      // The words of a recording of hours are more than may be parsed: they pass as the engine wrote them.
      if (!isText && !isParseable(body) && isWholeJson(body) && hasText(body)) return body;
      const answer = parseAnswer(body);
      if (!isRecord(answer)) throw failed("the answer is no transcription");
      const { text, error } = answer;
      if (typeof text !== "string")
        throw failed(typeof error === "string" ? `the answer is a failure: ${error}` : "the answer has no text");
      const words = answer["words"] === undefined && asksForWords(fields) ? wordsIn(answer["segments"]) : [];
      const joined = joinedLines(text);
      if (isText) return Buffer.from(`${joined}\n`);
      if (joined === text && words.length === 0) return body;
      return Buffer.from(JSON.stringify({ ...answer, text: joined, ...(words.length === 0 ? {} : { words }) }));
    },

    refusal(status, body) {
      const text = body.toString("utf8", 0, 2000);
      const said = errorOf(text);
      if (status === 500 && /^500 Internal Server Error\n(?:std::)?sto[a-z]+/.test(text))
        return new ApiError("dispatch.rejected", {
          message: "a field of the form must be a number, such as beam_size, and is none",
        });
      const isAudio =
        status === 400
          ? /^Invalid request$|read (audio|wav)|decode/i.test(said)
          : status === 500 && /ffmpeg|conver|decod/i.test(said);
      if (!isAudio) return undefined;
      return new ApiError("dispatch.unsupported_media_type", {
        message: "the audio in file cannot be decoded",
        details: { path: ["file"] },
      });
    },
  };
}

/** The text without the line ends after 60 letters each, and without blanks around it. */
function joinedLines(text: string): string {
  return text.replaceAll(/\n(?= )/g, "").trim();
}

function asksForWords(fields: ReadonlyMap<string, string>): boolean {
  const asked = fields.get("timestamp_granularities[]") ?? fields.get("timestamp_granularities") ?? "";
  return asked.split(/[\s,]+/).includes("word");
}

interface Word {
  readonly word: string;
  readonly start: number;
  readonly end: number;
}

/** A token with a blank before it begins a word, and so does each letter of a script without blanks. */
const begins = /^(?:\s|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}])/u;

/** The words of whisper.cpp's segments, which are tokens there, each with its seconds. */
function wordsIn(segments: unknown): readonly Word[] {
  const words: Word[] = [];
  for (const segment of Array.isArray(segments) ? segments : []) {
    const tokens: unknown[] = isRecord(segment) && Array.isArray(segment["words"]) ? segment["words"] : [];
    for (const token of tokens) {
      if (!isRecord(token)) continue;
      const { word, start, end } = token;
      if (typeof word !== "string" || typeof start !== "number" || typeof end !== "number") continue;
      const last = begins.test(word) ? undefined : words.pop();
      words.push(last === undefined ? { word, start, end } : { ...last, word: last.word + word, end });
    }
  }
  return words.map((each) => ({ ...each, word: each.word.trim() })).filter(({ word }) => word !== "");
}

function hasText(body: Buffer): boolean {
  return fieldsOf(body)?.some(({ name, valueStart }) => name === "text" && body[valueStart] === 0x22) === true;
}

function failed(message: string): ApiError {
  return new ApiError("dispatch.upstream_failed", { message: message.slice(0, 500) });
}

function errorOf(text: string): string {
  return errorIn(parseForeign(text)).message ?? text.trim();
}
