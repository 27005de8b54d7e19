import { ApiError } from "../../api/errors.ts";
import { isRecord } from "../../lib/record.ts";
import { withoutPaths } from "../../lib/without-paths.ts";

/** An engine's error, in any of the shapes that engines use. */
interface EngineError {
  readonly message: string | undefined;
  readonly type: unknown;
  readonly code: unknown;
  readonly requested: unknown;
  readonly size: unknown;
}

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
  const words = clientMessage(error);
  return words === undefined ? undefined : new ApiError("dispatch.rejected", { message: words });
}

/** The part of an engine's body that can be shown: a deeply nested value can be parsed, but not serialised. */
export function showable(body: unknown): unknown {
  return isShallow(body) ? body : undefined;
}

/** The engine's error: `{"error": {…}}`, `{"error": "…"}`, or the fields at the top. */
export function errorIn(body: unknown): EngineError {
  const inner = isRecord(body) && "error" in body ? body["error"] : body;
  const { message, type, code, n_prompt_tokens: requested, n_ctx: size } = isRecord(inner) ? inner : { message: inner };
  return { message: typeof message === "string" ? message : undefined, type, code, requested, size };
}

interface Overflow {
  readonly requested?: number | undefined;
  readonly size?: number | undefined;
}

/** Tokens of the prompt and of the context in engines' messages, in this order. */
const overflowMessages: readonly RegExp[] = [
  // llama.cpp, for embeddings and ranking.
  /input \((?<requested>\d+) tokens\) is too large to process.*batch size: (?<size>\d+)/,
  // Embedded engines of earlier versions.
  /^(?:the (?:prompt|input) has|query and document have) (?<requested>\d+) tokens, the context (?<size>\d+)$/,
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

/** Mistakes that `llama-server` reports with a 500, and the client's message; absent: the engine's own. */
const serverMistakes: readonly { readonly words: RegExp; readonly message?: string }[] = [
  {
    words: /^(?:image|audio|video) input is not supported/,
    message: "the model takes texts alone: it has no projector (model.projector) for images or sound",
  },
  { words: /^"prompt" elements must be/, message: "the input must be a text, a list of tokens, or a list of these" },
  { words: /^Failed to (?:parse (?:messages|tools|tool_choice)|load (?:image|audio))\b/ },
];
/** Error types that mean a client's mistake. */
const mistakeTypes: ReadonlySet<unknown> = new Set(["invalid_request_error", "not_supported_error"]);

function clientMessage({ message, type }: EngineError): string | undefined {
  const known = serverMistakes.find(({ words }) => words.test(message ?? ""));
  if (known === undefined && !mistakeTypes.has(type)) return undefined;
  return known?.message ?? cleaned(message ?? "the engine refused the request");
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
