import { CommandError, type Client } from "./client.ts";
import { isRecord } from "./output.ts";
import { events } from "./slots.ts";

/** The pieces of one streamed answer. Throws CommandError when the stream ends in an error. */
export async function* chat(
  client: Client,
  slot: string,
  message: string,
  maxTokens: number | undefined,
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
  for await (const data of events(body)) {
    if (data === "[DONE]") return;
    const chunk: unknown = JSON.parse(data);
    if (!isRecord(chunk)) continue;
    const { error, choices } = chunk;
    if (isRecord(error)) throw new CommandError(String(error["code"]), String(error["message"]));
    const choice: unknown = Array.isArray(choices) ? choices[0] : undefined;
    const delta = isRecord(choice) ? choice["delta"] : undefined;
    if (isRecord(delta) && typeof delta["content"] === "string") yield delta["content"];
  }
}
