/** A request that is answered with an error the client can act on. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }

  body(): string {
    const type = this.status >= 500 ? "server_error" : "invalid_request_error";
    return JSON.stringify({ error: { message: this.message, type, code: this.status } });
  }
}

/** What anything that was thrown says. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
