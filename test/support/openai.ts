import assert from "node:assert/strict";
import { createParser } from "eventsource-parser";
import { isRecord } from "../../src/cli/output.ts";

export async function post(base: string, path: string, body: unknown): Promise<Response> {
  return await fetch(new URL(path, base), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** Posts, asserts 200 and gives the body as an object. */
export async function ask(base: string, path: string, body: unknown): Promise<Record<string, unknown>> {
  const response = await post(base, path, body);
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const parsed: unknown = JSON.parse(text);
  assert.ok(isRecord(parsed));
  return parsed;
}

/** The JSON of every `data:` event, and whether `[DONE]` came last. */
export async function events(response: Response): Promise<{ chunks: Record<string, unknown>[]; isDone: boolean }> {
  const data: string[] = [];
  createParser({ onEvent: (event) => data.push(event.data) }).feed(await response.text());
  const chunks = data.filter((text) => text !== "[DONE]").map((text): unknown => JSON.parse(text));
  assert.ok(chunks.every(isRecord));
  return { chunks, isDone: data.at(-1) === "[DONE]" };
}

/** The first choice of a chat or completion, whole or one chunk of a stream. */
export function choice(body: Record<string, unknown>): Record<string, unknown> {
  const [first]: unknown[] = Array.isArray(body["choices"]) ? body["choices"] : [];
  assert.ok(isRecord(first), JSON.stringify(body));
  return first;
}

export function record(value: unknown): Record<string, unknown> {
  assert.ok(isRecord(value), JSON.stringify(value));
  return value;
}

export function list(value: unknown): Record<string, unknown>[] {
  assert.ok(Array.isArray(value) && value.every(isRecord), JSON.stringify(value));
  return value;
}

/** One key of every piece of a stream, joined. */
export function joined(pieces: readonly Record<string, unknown>[], key: string): string {
  return pieces.map(({ [key]: piece }) => (typeof piece === "string" ? piece : "")).join("");
}

/** The pieces of called functions in a stream, in order. */
export function callPieces(chunks: readonly Record<string, unknown>[]): Record<string, unknown>[] {
  return chunks.flatMap((chunk) => {
    const [first] = list(chunk["choices"]);
    const calls = first === undefined ? undefined : record(first["delta"])["tool_calls"];
    return calls === undefined ? [] : list(calls).map((call) => record(call["function"]));
  });
}
