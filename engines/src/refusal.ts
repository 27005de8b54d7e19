/** A request that is answered with an error the client can act on. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: number;
  readonly #fields: object;

  /** `fields` are added to the usual ones of its body, or replace them. */
  constructor(status: number, message: string, fields: object = {}) {
    super(message);
    this.status = status;
    this.#fields = fields;
  }

  body(): string {
    const type = this.status >= 500 ? "server_error" : "invalid_request_error";
    return JSON.stringify({ error: { message: this.message, type, code: this.status, ...this.#fields } });
  }
}

/** A prompt beyond the context, in `llama-server`'s words: SDKs recognise these words and counts. */
export function contextExceeded(promptTokens: number, contextTokens: number): Refusal {
  const message = `request (${promptTokens} tokens) exceeds the available context size (${contextTokens} tokens), try increasing it`;
  return new Refusal(400, message, {
    type: "exceed_context_size_error",
    n_prompt_tokens: promptTokens,
    n_ctx: contextTokens,
  });
}

/** The message of any thrown value. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
