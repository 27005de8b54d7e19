/** The bytes that the benchmark's engine sends, known to both ends, so that a reader can check every one. */

/** Microseconds of a clock that all processes of one machine share (CLOCK_MONOTONIC). */
export function monotonicUs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1_000_000 + Math.floor(nanoseconds / 1000);
}

export function answerBody(model: string): string {
  const message = {
    role: "assistant",
    content: "A fixed answer of about the length that a short chat turn has. ".repeat(3),
  };
  return JSON.stringify({
    id: "chatcmpl-bench",
    object: "chat.completion",
    created: 1_700_000_000,
    model,
    choices: [{ index: 0, message, finish_reason: "stop" }],
    usage: { prompt_tokens: 20, completion_tokens: 40, total_tokens: 60 },
  });
}

const stampDigits = 16;
const seqDigits = 6;

/** Event number `seq` of a chat stream; `atUs` is when it was written. The same length for every time and number. */
export function eventBytes(model: string, seq: number, atUs: number): string {
  const role = seq === 0 ? '"role":"assistant",' : "";
  const text = `${String(atUs).padStart(stampDigits, "0")} ${String(seq).padStart(seqDigits, "0")}`;
  return (
    `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"${model}",` +
    `"choices":[{"index":0,"delta":{${role}"content":"${text}"},"finish_reason":null}]}\n\n`
  );
}

export const streamTail = "data: [DONE]\n\n";

const content = '"content":"';

/** The time at which an event was written; NaN where the text is no event. */
export function stampOf(event: string): number {
  const at = event.indexOf(content);
  return at < 0 ? Number.NaN : Number(event.slice(at + content.length, at + content.length + stampDigits));
}
