import { ApiError } from "../../api/errors.ts";
import { errorIn, requestMistake, type EngineError } from "../../engines/error-body.ts";
import { withoutPaths } from "../../lib/without-paths.ts";

/**
 * The failure of an engine that means a mistake of the client, with any status: a prompt beyond the context has the
 * same message for every engine, llama.cpp's, which SDKs recognise; some mistakes `llama-server` reports as its own
 * failures, after which SDKs would repeat the request. Undefined for anything else.
 */
export function clientError(status: number, body: unknown): ApiError | undefined {
  const error = errorIn(body);
  const overflow = overflowOf(error);
  if (overflow !== undefined) return contextExceeded(overflow, status < 500 ? showable(body) : undefined);
  // 502 and above are about the engine's own backend, or its load.
  if (status !== 500 && status !== 501) return undefined;
  const words = requestMistake(error);
  return words === undefined ? undefined : new ApiError("dispatch.rejected", { message: cleaned(words) });
}

/** The part of an engine's body that can be shown: a deeply nested value can be parsed, but not serialised. */
export function showable(body: unknown): unknown {
  return isShallow(body) ? body : undefined;
}

interface Overflow {
  readonly requested?: number | undefined;
  readonly size?: number | undefined;
}

/** Tokens of the prompt and of the context in engines' messages, in this order. */
const overflowMessages: readonly RegExp[] = [
  // llama.cpp, for embeddings and ranking.
  /input \((?<requested>\d+) tokens\) is too large to process.*batch size: (?<size>\d+)/,
  // OpenAI, vLLM.
  /maximum context length is (?<size>\d+) tokens\b.{0,200}?\b(?:resulted in|requested|request has|contains at least) (?<requested>\d+)\b/s,
  // SGLang.
  /input \((?<requested>\d+) tokens\) is longer than the model's context length \((?<size>\d+) tokens\)/,
  // Anthropic.
  /prompt is too long: (?<requested>\d+) tokens > (?<size>\d+) maximum/,
];

function overflowOf({ message, type, code, requested, size }: EngineError): Overflow | undefined {
  const isNamed = type === "exceed_context_size_error" || code === "context_length_exceeded";
  if (isNamed && typeof requested === "number" && typeof size === "number") return { requested, size };
  const words = (message ?? "").slice(0, 2000);
  for (const pattern of overflowMessages) {
    const found = pattern.exec(words)?.groups;
    const counts = { requested: Number(found?.["requested"]), size: Number(found?.["size"]) };
    // Further tokens beside the prompt, such as `max_tokens`, may be the ones beyond the limit.
    if (found !== undefined && counts.requested >= counts.size) return counts;
  }
  return isNamed ? {} : undefined;
}

function contextExceeded({ requested, size }: Overflow, upstream: unknown): ApiError {
  const tokens = (count: number | undefined): string => (count === undefined ? "" : ` (${count} tokens)`);
  return new ApiError("dispatch.rejected", {
    message: `request${tokens(requested)} exceeds the available context size${tokens(size)}, try increasing it`,
    type: "exceed_context_size_error",
    familiar: {
      openai_code: "context_length_exceeded",
      ...(requested === undefined ? {} : { n_prompt_tokens: requested }),
      ...(size === undefined ? {} : { n_ctx: size }),
    },
    ...(upstream === undefined ? {} : { details: { upstream } }),
  });
}

/** A message about a failure within the engine may hold its paths and addresses (CONTRACT "Errors"). */
function cleaned(message: string): string {
  const line = message.slice(0, 2000).replace(/; (?:messages|tools) = .*$|\n.*$/s, "");
  return withoutPaths(
    line.replaceAll(/\b[a-z][a-z0-9+.-]*:\/\/[^\s'"]+|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/gi, "…"),
  ).slice(0, 500);
}

function isShallow(value: unknown, left = 50): boolean {
  if (value === undefined || left === 0) return false;
  return typeof value !== "object" || value === null || Object.values(value).every((each) => isShallow(each, left - 1));
}
