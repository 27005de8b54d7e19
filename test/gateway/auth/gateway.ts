import { request as httpRequest } from "node:http";
import { pino } from "pino";
import { loadConfig } from "../../../src/api/config.ts";
import type { TokenScope } from "../../../src/api/scopes.ts";
import { runGateway, type RunningGateway } from "../../../src/gateway/main.ts";
import { TokenStore } from "../../../src/store/tokens.ts";
import { temporaryDirectory } from "../../support/directory.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

export interface TestGateway extends AsyncDisposable {
  readonly running: RunningGateway;
  readonly tokens: TokenStore;
  readonly stateDir: string;
  /** What it has logged, as JSON lines. */
  log(): string;
  /** A token of the scope; one per scope and gateway. */
  token(scope: TokenScope): Promise<string>;
  /** Sends a request with exactly these headers (and Host), unlike fetch. */
  ask(method: string, path: string, headers?: Record<string, string>, body?: string): Promise<Answer>;
}

/** A gateway in this process, without operator or slots, on a free port and a state directory of its own. */
export async function startGateway(env: Readonly<Record<string, string>> = {}): Promise<TestGateway> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  const { config, problems } = loadConfig(
    { SVC_PORT: "0", SVC_HOST: "127.0.0.1", SVC_CONFIG_DIR: directory.path, SVC_STATE_DIR: directory.path, ...env },
    {},
    { isRoot: false, home: undefined, xdgConfigHome: undefined, xdgStateHome: undefined },
  );
  if (config === undefined) throw new Error(JSON.stringify(problems));
  let lines = "";
  const log = pino({ level: "debug" }, { write: (line: string) => void (lines += line) });
  const running = await runGateway(config, { log, version: "0.0.0-test" });
  stack.defer(() => running.close({ drainSeconds: 0 }));
  const tokens = stack.use(new TokenStore(directory.path));
  const made = new Map<TokenScope, string>();
  const owned = stack.move();
  return {
    running,
    tokens,
    stateDir: directory.path,
    log: () => lines,
    async token(scope) {
      const known = made.get(scope) ?? (await tokens.create({ label: `a ${scope}`, scope })).token;
      made.set(scope, known);
      return known;
    },
    ask: (method, path, headers = {}, body) => ask(running.port, method, path, headers, body),
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
