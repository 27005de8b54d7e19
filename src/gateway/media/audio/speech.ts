import { ApiError } from "../../../api/errors.ts";
import { invalidRequest } from "../../../api/problems.ts";
import { errorIn } from "../../../engines/error-body.ts";
import { isRecord } from "../../../lib/record.ts";
import { withFields } from "../../../lib/json-fields.ts";
import { parseAnswer, parseRequest, requestFields } from "../../protocols/json.ts";
import type { AnswerTranslation } from "../../relay/answer-format.ts";

const formats: readonly unknown[] = ["mp3", "wav", "opus", "flac", "pcm"];
const voiceLimit = 500;

/**
 * Checks a request for `/v1/audio/speech` and makes its defaults explicit, such as mp3. Fields that only some engines
 * know (`instructions`, `lang_code`) are kept. Throws ApiError `dispatch.invalid_request`, naming the field.
 */
export function speechRequest(body: Buffer): Buffer {
  const fields = parseRequest(body);
  const { input, voice } = fields;
  const format = fields["response_format"] ?? "mp3";
  const speed = fields["speed"] ?? 1;
  if (typeof input !== "string" || input.trim() === "") throw invalid("input", "must be the text to speak");
  if (typeof voice !== "string" || voice.trim() === "" || voice.length > voiceLimit)
    throw invalid("voice", "must be the name of a voice; GET /v1/audio/voices lists them");
  if (!formats.includes(format)) throw invalid("response_format", `must be one of ${formats.join(", ")}`);
  if (typeof speed !== "number" || !(speed >= 0.25 && speed <= 4))
    throw invalid("speed", "must be a number from 0.25 to 4");
  if ((fields["stream_format"] ?? "audio") !== "audio")
    throw invalid("stream_format", "must be audio: the engines here send no events");
  const kept = requestFields(body).filter(({ name }) => name !== "response_format" && name !== "speed");
  return withFields(body, kept, { response_format: format, speed });
}

/** Speech is bytes; JSON with a success status is a disguised failure of the engine. */
export const speechAnswers: AnswerTranslation = {
  answer(body) {
    const answer = parseAnswer(body);
    const error = errorIn(answer).message;
    throw new ApiError("dispatch.upstream_failed", {
      message: error === undefined ? "the answer has no audio" : `the answer is a failure: ${error}`,
    });
  },
};

/**
 * The voices of an engine as a list, and under `voices` as Open WebUI reads them. Kokoro-FastAPI answers
 * `{"voices": [{"id", "name"}]}`, before 0.3 `{"voices": ["…"]}`; its names begin with language and gender
 * (https://huggingface.co/hexgrad/Kokoro-82M/blob/main/VOICES.md).
 */
export const voicesAnswers: AnswerTranslation = {
  answer(body) {
    const answer = parseAnswer(body);
    const listed = isRecord(answer) ? (answer["voices"] ?? answer["data"]) : answer;
    if (!Array.isArray(listed))
      throw new ApiError("dispatch.upstream_failed", { message: "the answer lists no voices" });
    const voices = listed.flatMap((item: unknown) => {
      const id = isRecord(item) ? item["id"] : item;
      if (typeof id !== "string") return [];
      const name = isRecord(item) && typeof item["name"] === "string" ? item["name"] : id;
      const language = languages[/^([a-z])[fm]_/.exec(id)?.[1] ?? ""];
      return [{ id, object: "voice", name, ...(language === undefined ? {} : { language }) }];
    });
    return Buffer.from(
      JSON.stringify({ object: "list", data: voices, voices: voices.map(({ id, name }) => ({ id, name })) }),
    );
  },
};

const languages: Readonly<Record<string, string>> = {
  a: "en-US",
  b: "en-GB",
  e: "es",
  f: "fr",
  h: "hi",
  i: "it",
  j: "ja",
  p: "pt-BR",
  z: "zh",
};

function invalid(field: string, message: string): ApiError {
  return invalidRequest([{ path: [field], message }]);
}
