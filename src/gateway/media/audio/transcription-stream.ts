import { fieldsOf } from "../../../lib/json-fields.ts";
import { parseForeign } from "../../../lib/json.ts";

/** The valid values of `stream`. */
export const streamPattern = /^(true|false|1|0)$/i;

/** Whether the form requests events. */
export function asksForEvents(fields: ReadonlyMap<string, string>): boolean {
  return /^(true|1)$/i.test(fields.get("stream") ?? "");
}

/** A whole transcription, `{"text"}`, as the events of a streamed one. */
export function eventsOf(answer: Buffer): Buffer {
  const fields = fieldsOf(answer) ?? [];
  const valueOf = (key: string): unknown => {
    const field = fields.findLast(({ name }) => name === key);
    return field === undefined ? undefined : parseForeign(answer.subarray(field.valueStart, field.end));
  };
  const [text, usage] = [valueOf("text"), valueOf("usage")];
  const delta = { type: "transcript.text.delta", delta: text };
  const done = { type: "transcript.text.done", text, ...(usage === undefined ? {} : { usage }) };
  return Buffer.from(`data: ${JSON.stringify(delta)}\n\ndata: ${JSON.stringify(done)}\n\ndata: [DONE]\n\n`);
}
