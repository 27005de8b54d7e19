import { ApiError } from "../../api/errors.ts";
import { errorIn } from "../../engines/error-body.ts";
import { isRecord } from "../../lib/record.ts";
import { parseAnswer } from "../protocols/json.ts";
import type { AnswerTranslation } from "../relay/answer-format.ts";
import { parseJson } from "../../lib/json.ts";

/**
 * The answers of whisper.cpp's server in OpenAI's terms (its examples/server/server.cpp): it reports a failed inference
 * with status 200 and `{"error"}`, undecodable audio with 400 and the text "Invalid request", or, where it converts by
 * ffmpeg, with 500. Its fields have been checked before, so a 400 is about the audio. Answers of other engines pass.
 */
export const transcriptionAnswers: AnswerTranslation = {
  answer(body) {
    const answer = parseAnswer(body);
    if (!isRecord(answer)) throw failed("the engine's answer is no transcription");
    if (typeof answer["text"] === "string") return body;
    const { error } = answer;
    throw failed(typeof error === "string" ? `the engine failed: ${error}` : "the engine's answer has no text");
  },

  refusal(status, body) {
    const text = body.toString("utf8", 0, 2000);
    const isAudio =
      status === 400
        ? /^Invalid request$|read (audio|wav)|decode/i.test(errorOf(text))
        : status === 500 && /ffmpeg|conver|decod/i.test(errorOf(text));
    if (!isAudio) return undefined;
    return new ApiError("dispatch.unsupported_media_type", {
      message: "the engine cannot decode the audio in file",
      details: { path: ["file"] },
    });
  },
};

function failed(message: string): ApiError {
  return new ApiError("dispatch.upstream_failed", { message: message.slice(0, 500) });
}

function errorOf(text: string): string {
  return errorIn(parseJson(text)).message ?? text.trim();
}
