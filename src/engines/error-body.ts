/** An engine's error, in any of the shapes that engines use. */
export interface EngineError {
  readonly message: string | undefined;
  readonly type: unknown;
  readonly code: unknown;
  readonly requested: unknown;
  readonly size: unknown;
}

/**
 * The error in an engine's body: `{"error": {…}}`, `{"error": "…"}`, FastAPI's `{"detail": …}`, or the fields at the top,
 * where `error` may be empty, or the status in words.
 */
export function errorIn(body: unknown): EngineError {
  const { error, detail } = fieldsOf(body);
  const { type, code, n_prompt_tokens: requested, n_ctx: size } = fieldsOf(error ?? detail ?? body);
  const places = typeof error === "string" ? [body, error, detail] : [error, detail, body];
  return { message: places.map(sentenceOf).find(Boolean), type, code, requested, size };
}

/** The sentence of an error: a text, an object's `message`, or the first of FastAPI's validation errors with its field. */
function sentenceOf(error: unknown): string | undefined {
  if (typeof error === "string") return error;
  const [first]: unknown[] = Array.isArray(error) ? error : [];
  if (first === undefined) {
    const { message } = fieldsOf(error);
    return typeof message === "string" ? message : undefined;
  }
  const { msg, loc } = fieldsOf(first);
  if (typeof msg !== "string") return undefined;
  const path = Array.isArray(loc) ? loc.filter((part) => part !== "body").join(".") : "";
  return path === "" ? msg : `${path}: ${msg}`;
}

/** Mistakes that `llama-server` reports with a 500. `told` is for the client: by default the matched words. */
const serverMistakes: readonly { readonly words: RegExp; readonly told?: string }[] = [
  {
    words: /^(?:image|audio|video) input is not supported/,
    told: "the model takes texts alone: it has no projector (model.projector) for images or sound",
  },
  { words: /^"prompt" elements must be/, told: "the input must be a text, a list of tokens, or a list of these" },
  { words: /^Failed to (?:parse (?:messages|tools|tool_choice)|load (?:image|audio))\b.*/ },
  // The arguments of an earlier call.
  { words: /Failed to parse tool call arguments as JSON\b.*/ },
  // A chat template refuses the messages (`raise_exception`): before its sentence stands the template's text.
  { words: /(?<=Jinja Exception: ).+/ },
  // The same from versions before 2026; after the sentence stands the template's text.
  { words: /^.+(?= at row \d+, column \d+:)/ },
];
/** Error types that mean a mistake of the request. */
const mistakeTypes: ReadonlySet<unknown> = new Set(["invalid_request_error", "not_supported_error"]);

/** The sentence of an engine's 500 or 501 that the request has caused; undefined: the engine itself has failed. */
export function requestMistake({ message = "", type }: EngineError): string | undefined {
  for (const { words, told } of serverMistakes) {
    const found = words.exec(message);
    if (found !== null) return told ?? found[0];
  }
  return mistakeTypes.has(type) ? message || "the engine refused the request" : undefined;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
}
