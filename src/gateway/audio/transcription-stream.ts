import { isRecord } from "../../lib/record.ts";
import { parseForeign } from "../../lib/json.ts";

/** The valid values of `stream`. */
export const streamPattern = /^(true|false|1|0)$/i;

/** Whether the form requests events. */
export function asksForEvents(fields: ReadonlyMap<string, string>): boolean {
  return /^(true|1)$/i.test(fields.get("stream") ?? "");
}

/** A whole transcription, `{"text"}`, as the events of a streamed one. */
export function eventsOf(answer: Buffer): Buffer {
  const whole = parseForeign(answer);
  const { text, usage } = isRecord(whole) ? whole : {};
  const delta = { type: "transcript.text.delta", delta: text };
  const done = { type: "transcript.text.done", text, ...(usage === undefined ? {} : { usage }) };
  return Buffer.from(`data: ${JSON.stringify(delta)}\n\ndata: ${JSON.stringify(done)}\n\ndata: [DONE]\n\n`);
}
