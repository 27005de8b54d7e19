import type { IncomingMessage } from "node:http";
import {
  requestOf,
  UnsendableName,
  type AnswerTo,
  type AnyCall,
  type CallArgument,
  type ItemOf,
  type ListName,
  type RouteName,
  type SilentName,
} from "../api/management/call.ts";
import { isRecord, printable, recordsIn } from "./output.ts";
import type { Received } from "./received.ts";
import { watchIdle } from "./idle-timeout.ts";

/** An `import` of the value would load undici with it: 70 ms of CPU in each command (src/lib/node-http.ts). */
const { request: plainRequest } = process.getBuiltinModule("node:http");
const connectMs = 10_000;
/** After this time without an answer the client checks whether the service lives, which has the same time to answer. */
const defaultIdleTimeoutMs = 5000;

/** An answer without success, as the API sent it; printed as `code: message` and the remedy. */
export class CommandError extends Error {
  override readonly name = "CommandError";
  readonly code: string;
  readonly next: string | undefined;
  /** As the service sent them. */
  readonly details: unknown;

  /** `next`: the remedy; undefined only where no remedy is known. */
  constructor(code: string, message: string, next: string | undefined, details?: unknown) {
    super(message);
    this.code = code;
    this.next = next;
    this.details = details;
  }
}

export interface ClientOptions {
  readonly server: string;
  readonly token: string | undefined;
  /** Fields that are read as null at any place. */
  readonly without?: ReadonlySet<string>;
  /** A shorter time in tests. */
  readonly idleTimeoutMs?: number;
}

/** An answer with a success status. */
export interface Answered {
  readonly contentType: string;
  /** The body as it arrives. Throws CommandError when the connection breaks. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** The parts of a request beside its path; absent: a GET without a body. */
interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Aborted when the answer is not needed any more. Reading it then throws. */
  readonly signal?: AbortSignal;
}

/** The management API over HTTP: the only way in which the command line knows the service. */
export class Client {
  readonly #server: string;
  readonly #token: string | undefined;
  readonly #without: ReadonlySet<string>;
  readonly #idleTimeoutMs: number;

  constructor({ server, token, without = new Set(), idleTimeoutMs = defaultIdleTimeoutMs }: ClientOptions) {
    this.#idleTimeoutMs = idleTimeoutMs;
    this.#server = server;
    this.#token = token;
    this.#without = without;
  }

  get server(): string {
    return this.#server;
  }

  /** The same service with other credentials. */
  withToken(token: string | undefined): Client {
    return new Client({ server: this.#server, token });
  }

  /** The same service, with these fields ignored: they are read as null. */
  withoutFields(without: ReadonlySet<string>): Client {
    return new Client({ server: this.#server, token: this.#token, without });
  }

  /** The answer of a route. Throws CommandError, also where the answer is no object. */
  async call<N extends RouteName>(route: N, ...call: CallArgument<N>): Promise<Received<AnswerTo<N>>>;
  async call(route: RouteName, call?: AnyCall): Promise<unknown> {
    return await this.#object(route, call);
  }

  /** The answer of a route, which has at least that field. Throws CommandError, also where the field is missing or null. */
  async one<N extends RouteName>(
    route: N,
    field: keyof AnswerTo<N> & string,
    ...call: CallArgument<N>
  ): Promise<Received<AnswerTo<N>>>;
  async one(route: RouteName, field: string, call?: AnyCall): Promise<unknown> {
    const answer = await this.#object(route, call);
    if (answer[field] !== undefined && answer[field] !== null) return answer;
    throw this.#unlikeBerth(route, call, `without the field ${field}`);
  }

  /** The items of a list. Throws CommandError, also where the answer is no list. */
  async list<N extends ListName>(route: N, ...call: CallArgument<N>): Promise<readonly Received<ItemOf<N>>[]>;
  async list(route: RouteName, call?: AnyCall): Promise<readonly unknown[]> {
    const { data } = await this.#object(route, call);
    if (Array.isArray(data)) return recordsIn(data);
    throw this.#unlikeBerth(route, call, "without a list in data");
  }

  /** Sends a request whose answer has no body. Throws CommandError, also where the answer has one. */
  async send<N extends SilentName>(route: N, ...call: CallArgument<N>): Promise<void>;
  async send(route: RouteName, call?: AnyCall): Promise<void> {
    const text = await wholeText(await this.#open(route, call));
    if (text !== "") throw this.#unlikeBerth(route, call, "with a body");
  }

  /** A text of the service as JSON, e.g. in an event. Throws CommandError for invalid JSON. */
  parsed(text: string): unknown {
    try {
      return JSON.parse(text, (key, value: unknown) => (this.#without.has(key) ? null : value));
    } catch {
      throw notBerth(`the answer of ${this.#server} is not JSON`);
    }
  }

  /** The body as it arrives. Throws CommandError, also when the connection breaks. */
  async open<N extends RouteName>(route: N, ...call: CallArgument<N>): Promise<AsyncIterable<Uint8Array>>;
  async open(route: RouteName, call?: AnyCall): Promise<AsyncIterable<Uint8Array>> {
    return await this.#open(route, call);
  }

  async #object(route: RouteName, call: AnyCall | undefined): Promise<Record<string, unknown>> {
    const answer = this.parsed(await wholeText(await this.#open(route, call)));
    if (isRecord(answer)) return answer;
    throw this.#unlikeBerth(route, call, "with something else than an object");
  }

  #unlikeBerth(route: RouteName, call: AnyCall | undefined, how: string): CommandError {
    const { method, path } = requestTo(route, call);
    return notBerth(`${this.#server} answered ${method} ${path} ${how}`);
  }

  async #open(route: RouteName, call: AnyCall | undefined): Promise<AsyncIterable<Uint8Array>> {
    const { method, path } = requestTo(route, call);
    const json = { headers: { "content-type": "application/json" }, body: JSON.stringify(call?.body) };
    return (await this.answer(path, { method, ...(call?.body === undefined ? {} : json) })).body;
  }

  /** The answer of any path, after a success status. Throws CommandError, also when the connection breaks. */
  async answer(path: string, sent: Sent): Promise<Answered> {
    const answer = await this.#send(path, sent);
    const body = this.#bodyOf(answer);
    const status = answer.statusCode ?? 0;
    if (status >= 200 && status < 300) return { contentType: answer.headers["content-type"] ?? "", body };
    throw await failureOf(answer, await wholeText(body));
  }

  async #send(path: string, { method = "GET", headers = {}, body, signal }: Sent): Promise<IncomingMessage> {
    const url = this.#urlOf(path);
    // node:http and not fetch: loading fetch takes a tenth of the time that a command may take to start.
    const send = url.protocol === "https:" ? (await import("node:https")).request : plainRequest;
    if (this.#token !== undefined && !/^[\x21-\x7e]+$/.test(this.#token)) {
      throw new CommandError(
        "auth.invalid",
        "the token in SVC_TOKEN holds characters that no token has: blanks, line ends or letters beyond ASCII",
        "one looks like svc_<id>.<secret>",
      );
    }
    const authorization = this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` };
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      const all = { method, headers: { ...headers, ...authorization }, ...(signal === undefined ? {} : { signal }) };
      const request = send(url, all, resolve);
      const connected = (): void => {
        clearTimeout(limit);
        watchIdle(request, () => send(new URL("/livez", url)), this.#idleTimeoutMs);
      };
      const limit = setTimeout(() => request.destroy(new Error("no connection")), connectMs);
      request.once("socket", (socket) => {
        if (!socket.connecting) connected();
        else socket.once("connect", connected);
      });
      request.once("close", () => clearTimeout(limit));
      request.once("error", reject);
      request.end(body);
    });
    return await answered.catch(async (error: Error) => {
      const { unreachable } = await import("./unreachable.ts");
      throw unreachable(error, this.#server, this.#idleTimeoutMs);
    });
  }

  #urlOf(path: string): URL {
    const url = URL.canParse(path, this.#server) ? new URL(path, this.#server) : undefined;
    if (url?.protocol === "http:" || url?.protocol === "https:") {
      checkAddress(new URL(this.#server));
      return url;
    }
    throw new CommandError(
      "server.invalid",
      // The text before an @ may be a password, even in a text that is no address.
      `${this.#server.replace(/^(.*\/\/)?.*@/, "$1…@")} is not the address of a service`,
      "it looks like http://127.0.0.1:8080; set it with --server or SVC_URL",
    );
  }

  async *#bodyOf(answer: IncomingMessage): AsyncIterable<Uint8Array> {
    const chunks: AsyncIterable<Uint8Array> = answer;
    try {
      yield* chunks;
    } catch {
      throw new CommandError(
        "unreachable",
        `${this.#server} broke the connection before its answer was whole`,
        "try again: it may have been stopped or restarted",
      );
    }
  }
}

/** The method and path of a call. Throws CommandError for a name that no path can carry. */
function requestTo(route: RouteName, call: AnyCall | undefined): { readonly method: string; readonly path: string } {
  try {
    return requestOf(route, call);
  } catch (error) {
    if (!(error instanceof UnsendableName)) throw error;
    throw new CommandError("usage", error.message, "check the name");
  }
}

/** A body to its end. */
export async function wholeText(body: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) text += decoder.decode(chunk, { stream: true });
  return text + decoder.decode();
}

/** Paths belong to the service, and everybody who lists processes sees a password in an address. */
function checkAddress({ origin, pathname, search, username, password }: URL): void {
  if (username !== "" || password !== "") {
    throw new CommandError(
      "server.invalid",
      `the address of ${origin} holds a name or a password`,
      "leave them out; `berth login` keeps a token for it",
    );
  }
  if (pathname === "/" && search === "") return;
  throw new CommandError(
    "server.invalid",
    `${origin}${pathname}${search} is an address within a service`,
    `leave it at ${origin}`,
  );
}

/** Another program than Berth answered. */
export function notBerth(message: string): CommandError {
  return new CommandError("server.invalid", message, "is it a Berth? name another with --server or SVC_URL");
}

async function failureOf({ statusCode = 0, headers }: IncomingMessage, body: string): Promise<CommandError> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    parsed = undefined;
  }
  if (!isEnvelope(parsed)) return notBerth(`the server answered ${statusCode}, which is no error of Berth's`);
  const { code, message, details } = parsed.error;
  return await failure(code, message, details, String(headers["x-request-id"] ?? "-"));
}

/** An error of the service, with the remedy. */
export async function failure(code: string, message: string, details?: unknown, request = "-"): Promise<CommandError> {
  const { nextStep } = await import("./next-steps.ts");
  const about = isRecord(details) ? details : {};
  const word = (field: string): string | undefined => (typeof about[field] === "string" ? about[field] : undefined);
  const path = Array.isArray(about["path"]) ? about["path"].map(String).join(".") : undefined;
  const { slot, upstream, reason } = { slot: word("slot"), upstream: word("upstream"), reason: word("reason") };
  return new CommandError(
    printable(code),
    printable(message),
    nextStep(code, { slot, upstream, reason, path, request, scope: word("scope") }),
    details,
  );
}

function isEnvelope(value: unknown): value is { error: { code: string; message: string; details?: unknown } } {
  const error = isRecord(value) ? value["error"] : undefined;
  return isRecord(error) && typeof error["code"] === "string" && typeof error["message"] === "string";
}
