import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { ApiError } from "../../../src/api/errors.ts";
import type { OwnItems } from "../../../src/gateway/protocols/kept-items.ts";
import { list, record } from "../../support/openai.ts";
import { thrownBy } from "../../support/rejection.ts";

/** A body of these bytes, or of this as JSON. */
export const encode = (value: unknown): Buffer =>
  Buffer.from(typeof value === "string" ? value : JSON.stringify(value));

export const decode = (body: Buffer): unknown => JSON.parse(body.toString());

/** Of a client that has asked nothing before. */
export const nothingKept: OwnItems = { keep: () => undefined, find: () => undefined };

export const failureOf = (act: () => unknown): ApiError => thrownBy(act, ApiError);

/** Asserts that `act` is refused as the client's mistake at `place`, with dots between its steps. */
export function refusedAt(place: string, act: () => unknown): ApiError {
  const failure = failureOf(act);
  const path = place.split(".").map((step) => (/^\d+$/.test(step) ? Number(step) : step));
  assert.deepEqual([failure.code, failure.details?.["path"]], ["dispatch.invalid_request", path]);
  return failure;
}

/** Messages and tools of a chat. */
export const user = (content: unknown): object => ({ role: "user", content });
export const assistant = (content: unknown, ...calls: readonly object[]): object =>
  calls.length === 0 ? { role: "assistant", content } : { role: "assistant", content, tool_calls: calls };
export const toolCall = (id: string, name: string, args = "{}"): object => ({
  id,
  type: "function",
  function: { name, arguments: args },
});
export const toolResult = (id: string, content: string): object => ({ role: "tool", tool_call_id: id, content });
export const tool = (name: string, more: object): object => ({ type: "function", function: { name, ...more } });
export const hello = user("hello");
export const text = (words: string, type = "text"): object => ({ type, text: words });

const words = (value: unknown): string => (typeof value === "string" ? value : "");
const part = ({ type, text: shown, ...more }: Record<string, unknown>): string =>
  type === "text" ? words(shown) : JSON.stringify(more);
/**
 * The messages of a chat, a line each: calls as `id=name(arguments)`, parts in brackets, an empty line as `/` and a reminder of
 * the system in angle brackets.
 */
export const briefly = (messages: unknown): string[] =>
  list(messages).map(({ role, content, tool_calls: calls = [], tool_call_id: id = "" }) => {
    const said = Array.isArray(content) ? `[${list(content).map(part).join(" | ")}]` : words(content);
    const called = list(calls).map((call) => {
      const { name, arguments: args } = record(call["function"]);
      return `${words(call["id"])}=${words(name)}(${words(args)})`;
    });
    const plain = said.replaceAll(/<system-reminder>\n(.*?)\n<\/system-reminder>/g, "<$1>").replaceAll("\n\n", "/");
    return [`${words(role)}${words(id)}:`, plain, ...called].filter((each) => each !== "").join(" ");
  });

const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "engine" };
export const usage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };
export const data = (event: object): string => `data: ${JSON.stringify(event)}\n\n`;
/** Events of a chat engine's stream. */
export const chunk = (delta: object, finish: string | null = null, choice: object = {}): string =>
  data({ ...head, choices: [{ index: 0, delta, finish_reason: finish, ...choice }] });
export const callChunk = (index: number, args: string, more: { id?: string; name?: string } = {}): string => {
  const { id, name } = more;
  return chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: args } }] });
};
/** The next 500 calls, each empty. */
export const manyCalls = (at: number): string =>
  chunk({ tool_calls: Array.from({ length: 500 }, (_, n) => ({ index: at * 500 + n, ...toolCall("a", "b", "") })) });
export const usageChunk = data({ ...head, choices: [], usage });
export const done = "data: [DONE]\n\n";

interface Through {
  readonly stream: { push: (bytes: Buffer) => Buffer | undefined; end: () => Buffer | undefined };
}

/** What a stream's translation makes of `sent`, which it gets in these pieces. */
export function through({ stream }: Through, sent: string | readonly Buffer[]): string {
  const pieces = typeof sent === "string" ? [Buffer.from(sent)] : sent;
  return [...pieces.map((piece) => stream.push(piece)), stream.end()].map((bytes) => bytes?.toString() ?? "").join("");
}

/** Buffers that end at these places of `bytes`. */
export function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const edges = [0, ...places.toSorted((a, b) => a - b), bytes.length];
  return edges.slice(1).map((end, at) => bytes.subarray(edges[at], end));
}

/** Options of an official SDK that gets this answer; no socket is opened. */
const answeredWith = (
  sent: string,
  type = "text/event-stream",
): { apiKey: string; maxRetries: number; fetch: () => Promise<Response> } => ({
  apiKey: "none",
  maxRetries: 0,
  fetch: () => Promise.resolve(new Response(sent, { headers: { "content-type": type } })),
});
export const openaiReading = (sent: string): OpenAI => new OpenAI(answeredWith(sent));
export const anthropicReading = (sent: string, type?: string): Anthropic => new Anthropic(answeredWith(sent, type));
