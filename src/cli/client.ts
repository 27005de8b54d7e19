import { request as plainRequest, type IncomingMessage } from "node:http";

const connectMs = 10_000;

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

/** What is sent beside the path; absent: a GET without a body. */
interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** The management API over HTTP: all that the command line knows of the service. */
export class Client {
  readonly #server: string;
  readonly #token: string | undefined;

  constructor(options: ClientOptions) {
    this.#server = options.server;
    this.#token = options.token;
  }

  get server(): string {
    return this.#server;
  }

  /** The same service with other credentials. */
  withToken(token: string | undefined): Client {
    return new Client({ server: this.#server, token });
  }

  /** GET, parsed. Throws CommandError. */
  async get(path: string): Promise<unknown> {
    const text = await this.text(path);
    try {
      return JSON.parse(text);
    } catch {
      throw notBerth(`the answer of ${this.#server} is not JSON`);
    }
  }

  /** Sends a body as JSON, and reads what is answered; undefined when that is nothing. Throws CommandError. */
  async send(method: "POST" | "PUT" | "DELETE", path: string, body?: object): Promise<unknown> {
    const json = { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    const text = await wholeText(await this.open(path, { method, ...(body === undefined ? {} : json) }));
    try {
      return text === "" ? undefined : JSON.parse(text);
    } catch {
      throw notBerth(`the answer of ${this.#server} is not JSON`);
    }
  }

  /** GET, as it is. Throws CommandError. */
  async text(path: string): Promise<string> {
    return await wholeText(await this.open(path));
  }

  /** The body as it comes; the status was a success. Throws CommandError, also when the connection breaks. */
  async open(path: string, sent: Sent = {}): Promise<AsyncIterable<Uint8Array>> {
    const answer = await this.#send(path, sent);
    const body = this.#bodyOf(answer);
    const status = answer.statusCode ?? 0;
    if (status >= 200 && status < 300) return body;
    throw failureOf(status, await wholeText(body));
  }

  async #send(path: string, { method = "GET", headers = {}, body }: Sent): Promise<IncomingMessage> {
    const url = this.#urlOf(path);
    // node:http and not fetch: loading fetch takes a tenth of the time that a command may take to start.
    const send = url.protocol === "https:" ? (await import("node:https")).request : plainRequest;
    const authorization = this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` };
    return await new Promise((resolve, reject) => {
      const request = send(url, { method, headers: { ...headers, ...authorization } }, resolve);
      // Only until it is connected: an answer may take its time.
      const limit = setTimeout(() => request.destroy(new Error("no connection")), connectMs);
      request.once("socket", (socket) => {
        if (!socket.connecting) clearTimeout(limit);
        else socket.once("connect", () => clearTimeout(limit));
      });
      request.once("close", () => clearTimeout(limit));
      request.once("error", (error) => reject(this.#unreachable(error)));
      request.end(body);
    });
  }

  #urlOf(path: string): URL {
    const url = URL.canParse(path, this.#server) ? new URL(path, this.#server) : undefined;
    if (url?.protocol === "http:" || url?.protocol === "https:") return url;
    throw new CommandError(
      "server.invalid",
      `${this.#server} is not the address of a service`,
      "it looks like http://127.0.0.1:8080; set it with --server or SVC_URL",
    );
  }

  async *#bodyOf(answer: IncomingMessage): AsyncIterable<Uint8Array> {
    const chunks: AsyncIterable<Uint8Array> = answer;
    try {
      yield* chunks;
    } catch {
      throw new CommandError("unreachable", `${this.#server} broke the connection before its answer was whole`);
    }
  }

  #unreachable(error: Error): CommandError {
    const code = "code" in error && typeof error.code === "string" ? error.code : "";
    if (/CERT|SELF_SIGNED|ALTNAME/.test(code)) {
      return new CommandError(
        "unreachable",
        `the certificate of ${this.#server} is not trusted (${code})`,
        "name a file with the root certificate of its edge proxy in NODE_EXTRA_CA_CERTS",
      );
    }
    if (code === "EPROTO" || code.startsWith("ERR_SSL_"))
      return notBerth(`what answers at ${this.#server} does not speak TLS`);
    if (code.startsWith("HPE_")) return notBerth(`what answers at ${this.#server} does not speak HTTP`);
    return new CommandError(
      "unreachable",
      `nothing answers at ${this.#server}`,
      "start it with `berth up`, or name another with --server",
    );
  }
}

async function wholeText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) text += decoder.decode(chunk, { stream: true });
  return text + decoder.decode();
}

function notBerth(message: string): CommandError {
  return new CommandError("server.invalid", message, "is it a Berth? name another with --server or SVC_URL");
}

function failureOf(status: number, body: string): CommandError {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    parsed = undefined;
  }
  if (!isEnvelope(parsed)) return notBerth(`the server answered ${status}, which is no error of Berth's`);
  const { code, message, details } = parsed.error;
  const slot = typeof details === "object" && details !== null && "slot" in details ? String(details.slot) : "NAME";
  return new CommandError(code, message, nextSteps[code]?.replace("NAME", slot));
}

function isEnvelope(value: unknown): value is { error: { code: string; message: string; details?: unknown } } {
  if (typeof value !== "object" || value === null || !("error" in value)) return false;
  const { error } = value;
  return (
    typeof error === "object" &&
    error !== null &&
    "code" in error &&
    "message" in error &&
    typeof error.code === "string" &&
    typeof error.message === "string"
  );
}

const nextSteps: Readonly<Record<string, string>> = {
  "auth.required": "run `berth login`, or give a token in SVC_TOKEN",
  "auth.invalid": "run `berth login`, or give a valid token in SVC_TOKEN",
  "auth.forbidden": "a token of a higher scope may: `berth login`, or SVC_TOKEN",
  "slot.already_exists": "see `berth slot list`",
  "slot.builtin": "set `enabled = false` in its manifest instead",
  "config.read_only": "change the manifest where it is kept: in Git, or in the cluster",
  "config.fit": "see `berth model show REF`, or choose a smaller model",
  "slot.overloaded": "try again later, or raise `concurrency` in its manifest",
  "slot.not_found": "see `berth slot list`",
  "model.not_found": "see `berth model list`",
  "model.not_loaded": "see `berth model show REF`",
  "model.in_use": "give it another model first, or use --force",
  "model.insufficient_disk": "make room, or set SVC_MODELS_DIR to another disk",
  // A route that is not there: the commands of this version know more than the service does.
  "system.not_found": "the service may be older than this command: compare `berth status` and `berth --version`",
  "system.method_not_allowed":
    "the service may be older than this command: compare `berth status` and `berth --version`",
  "system.not_implemented": "this version of the service cannot do that yet",
  "slot.not_ready": "see `berth slot show NAME` for the reason",
  "slot.disabled": "set `enabled = true` in the slot's manifest",
  "slot.failed": "see `berth slot show NAME` for the cause",
};
