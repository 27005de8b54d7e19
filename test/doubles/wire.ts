import type { IncomingMessage, ServerResponse } from "node:http";
import { parseArgs } from "node:util";
import { text as textOf } from "node:stream/consumers";
import { serve } from "../support/listen.ts";

/** The address and the controls of every double that is an HTTP server. */
export interface Listening extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
}

export interface ListeningOptions {
  readonly host?: string;
  readonly port?: number;
  /** Called after everything was closed by `die`. */
  readonly onDeath?: () => void;
}

export interface DoubleServer extends Listening {
  /** Ends in the middle of everything, as a process that crashes. */
  readonly die: () => void;
}

/** Listens on `port` (0: any free one). Disposing cuts what is open. */
export async function startServer(
  onRequest: (request: IncomingMessage, response: ServerResponse) => void,
  { host = "127.0.0.1", port = 0, onDeath }: ListeningOptions,
): Promise<DoubleServer> {
  const served = await serve(onRequest, port, host);
  return {
    ...served,
    host,
    die: () => {
      served.server.closeAllConnections();
      served.server.close();
      onDeath?.();
    },
  };
}

/** Hands on the body of a request when it is whole. */
export function readBody(request: IncomingMessage, onWhole: (text: string) => void): void {
  void textOf(request).then(onWhole, () => undefined);
}

export function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** The flags of the command line. */
export interface Flags {
  /** To be passed on to the double as they are. */
  readonly common: Required<ListeningOptions>;
  readonly text: (flag: string) => string | undefined;
  /** 0 where it is not given. */
  readonly number: (flag: string) => number;
}

interface ByHand {
  readonly name: string;
  /** Beside --host, --port and --start-delay-ms. */
  readonly flags: Readonly<Record<string, "string" | "boolean">>;
  readonly start: (flags: Flags) => Promise<Listening>;
}

/** Runs a double as a separate program. It listens where --host and --port say, else where HOST and PORT do. */
export function runByHand({ name, flags, start }: ByHand): void {
  const own = Object.entries({ host: "string", port: "string", "start-delay-ms": "string", ...flags });
  const { values } = parseArgs({
    options: Object.fromEntries(own.map(([flag, type]) => [flag, { type: type === "boolean" ? type : "string" }])),
  });
  const said = new Map(Object.entries(values));
  const text = (flag: string): string | undefined => said.get(flag)?.toString();
  const common = {
    host: text("host") ?? process.env["HOST"] ?? "127.0.0.1",
    port: Number(text("port") ?? process.env["PORT"] ?? 0),
    onDeath: () => process.exit(1),
  };
  const told = { common, text, number: (flag: string) => Number(text(flag) ?? 0) };
  process.on("SIGTERM", () => process.exit(0));
  setTimeout(() => {
    start(told).then(
      ({ host, port }) => console.log(`${name} double listens on http://${host}:${port}`),
      (error: unknown) => {
        console.error(`${name} double: ${String(error)}`);
        process.exit(1);
      },
    );
  }, told.number("start-delay-ms"));
}
