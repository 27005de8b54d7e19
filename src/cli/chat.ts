import { failure, type Client } from "./client.ts";
import { cell, isRecord } from "./output.ts";
import { events } from "./slots.ts";

/**
 * The pieces of one streamed answer. While the slot is not there yet, `onWaiting` is told what it does. Throws
 * CommandError when the stream ends in an error.
 */
export async function* chat(
  client: Client,
  slot: string,
  message: string,
  maxTokens: number | undefined,
  onWaiting: (text: string) => void = () => undefined,
): AsyncIterable<string> {
  const body = await client.open("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: slot,
      stream: true,
      messages: [{ role: "user", content: message }],
      ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    }),
  });
  for await (const data of events(body, (comment) => onWaiting(waiting(comment)))) {
    if (data === "[DONE]") return;
    const chunk = client.parsed(data);
    if (!isRecord(chunk)) continue;
    const { error, choices } = chunk;
    const details = isRecord(error) ? error["details"] : undefined;
    if (isRecord(error))
      throw await failure(cell(error["code"]), cell(error["message"]), { slot, ...(isRecord(details) ? details : {}) });
    const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
    const delta = isRecord(choice) ? choice["delta"] : undefined;
    if (isRecord(delta) && typeof delta["content"] === "string") yield delta["content"];
  }
}

/** `waiting slot=primary state=pulling progress=41%`, for a person. */
function waiting(comment: string): string {
  const words = Object.fromEntries(
    comment.split(" ").flatMap((word) => (word.includes("=") ? [word.split("=", 2)] : [])),
  );
  const { slot, state, progress } = words;
  if (slot === undefined || state === undefined) return comment;
  return `${slot}: ${state}${progress === undefined ? "" : ` ${progress}`}`;
}

/** All of standard input. */
export async function pipedIn(): Promise<string> {
  let text = "";
  for await (const chunk of process.stdin.setEncoding("utf8")) text += String(chunk);
  return text;
}
