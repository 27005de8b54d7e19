import { chatChunkSchema, type ChatChunk } from "./chat-format.ts";
import { ApiError } from "../../api/errors.ts";
import { parseForeign } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import { engineEventFailure } from "../relay/engine-failure.ts";

/**
 * An event of a chat engine's stream. Throws ApiError where the engine reports a failure, or sends another kind of
 * event.
 */
export function readChatChunk(json: string): ChatChunk {
  const value = parseForeign(json);
  if (value === undefined) throw failed("the engine's answer is broken: an event is not JSON");
  if (isRecord(value) && (value["error"] ?? null) !== null) throw engineEventFailure(json);
  const chunk = chatChunkSchema.safeParse(value).data;
  if (chunk === undefined) throw failed("the engine's answer is broken: an event is no chat chunk");
  return chunk;
}

/** The client's error for an invalid answer of the engine. */
export function failed(message: string): ApiError {
  return new ApiError("dispatch.upstream_failed", { message });
}
