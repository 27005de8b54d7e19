import { request as httpRequest } from "node:http";
import type { TokenScope } from "../../../src/api/scopes.ts";
import type { GatewayOptions } from "../../../src/gateway/main.ts";
import { TokenStore } from "../../../src/store/auth/tokens.ts";
import { startGateway as start, type SlotSketch, type TestGateway as Running } from "../../support/gateway.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

export interface TestGateway extends Running {
  readonly port: number;
  readonly tokens: TokenStore;
  /** A token of the scope; one per scope and gateway. */
  token(scope: TokenScope): Promise<string>;
  /** Sends a request with exactly these headers (and Host), unlike fetch. */
  ask(method: string, path: string, headers?: Record<string, string>, body?: string): Promise<Answer>;
}

/** A gateway in this process with its tokens at hand. */
export async function startGateway(
  env: Readonly<Record<string, string>> = {},
  slots: Readonly<Record<string, SlotSketch>> = {},
  options: Partial<GatewayOptions> = {},
): Promise<TestGateway> {
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await start({ env, slots, gateway: options }));
  const tokens = stack.use(new TokenStore(env["SVC_STATE_DIR"] ?? gateway.stateDir));
  const made = new Map<TokenScope, string>();
  const { port } = gateway.running;
  const owned = stack.move();
  return {
    ...gateway,
    port,
    tokens,
    async token(scope) {
      const known = made.get(scope) ?? (await tokens.create({ label: `a ${scope}`, scope })).token;
      made.set(scope, known);
      return known;
    },
    ask: (method, path, headers = {}, body) => ask(port, method, path, headers, body),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function ask(
  port: number,
  method: string,
  path: string,
  headers: Record<string, string>,
  body: string | undefined,
): Promise<Answer> {
  return await new Promise((resolve, reject) => {
    const request = httpRequest({ host: "127.0.0.1", port, method, path, headers, agent: false }, (response) => {
      if (response.headers["content-type"]?.startsWith("text/event-stream") === true) {
        // It has no end.
        response.destroy();
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: "" });
        return;
      }
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.once("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }));
      response.once("error", reject);
    });
    request.once("error", reject);
    request.end(body);
  });
}

/** The error code of an answer that carries the envelope. */
export function codeOf({ body }: Answer): string {
  const parsed: unknown = JSON.parse(body);
  if (typeof parsed !== "object" || parsed === null || !("error" in parsed)) return "";
  const { error } = parsed;
  return typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
}
