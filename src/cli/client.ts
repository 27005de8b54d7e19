/** An answer that is no success, as the API told it; printed as `code: message` and what to do. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly code: string;
  readonly next: string | undefined;

  constructor(code: string, message: string, next?: string) {
    super(message);
    this.code = code;
    this.next = next;
  }
}

export interface ClientOptions {
  readonly server: string;
  readonly token: string | undefined;
}

/** The management API over HTTP: all that the command line knows of the service. */
export class Client {
  readonly #options: ClientOptions;

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /** GET, parsed. Throws CommandError. */
  async get(path: string): Promise<unknown> {
    return await (await this.open(path)).json();
  }

  async text(path: string): Promise<string> {
    return await (await this.open(path)).text();
  }

  /** The response itself, for streams; its status is a success. */
  async open(path: string, init: RequestInit = {}): Promise<Response> {
    const { server, token } = this.#options;
    let response: Response;
    try {
      response = await fetch(new URL(path, server), {
        ...init,
        headers: {
          ...Object.fromEntries(new Headers(init.headers)),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        },
      });
    } catch {
      throw new CommandError(
        "unreachable",
        `nothing answers at ${server}`,
        "start it with `berth up`, or name another with --server",
      );
    }
    if (response.ok) return response;
    throw failureOf(response.status, await response.text());
  }
}

function failureOf(status: number, body: string): CommandError {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    parsed = undefined;
  }
  if (isEnvelope(parsed)) {
    const { code, message } = parsed.error;
    return new CommandError(code, message, nextSteps[code]);
  }
  return new CommandError(`http.${status}`, "the server's answer is no Berth error; is it a Berth?");
}

function isEnvelope(value: unknown): value is { error: { code: string; message: string } } {
  if (typeof value !== "object" || value === null || !("error" in value)) return false;
  const { error } = value;
  return (
    typeof error === "object" &&
    error !== null &&
    "code" in error &&
    "message" in error &&
    typeof error.message === "string"
  );
}

const nextSteps: Readonly<Record<string, string>> = {
  "slot.not_found": "see `berth slot list`",
  "model.not_found": "see `berth model list`",
  "slot.not_ready": "see `berth slot show NAME` for the reason",
  "slot.failed": "see `berth slot logs NAME` for the cause",
};
