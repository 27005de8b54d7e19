import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { parseArgs } from "node:util";
import { listen } from "../support/listen.ts";

/** The address and the controls of every double that is an HTTP server. */
export interface Listening extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
}

export interface ListeningOptions {
  readonly host?: string;
  readonly port?: number;
  /** What dying does beside closing everything. */
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
  const server: Server = createServer(onRequest);
  return {
    host,
    port: await listen(server, port, host),
    die: () => {
      server.closeAllConnections();
      server.close();
      onDeath?.();
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Hands on the body of a request when it is whole. */
export function readBody(request: IncomingMessage, onWhole: (text: string) => void): void {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.once("end", () => onWhole(Buffer.concat(chunks).toString()));
}

export function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** What was said on the command line. */
export interface Flags<F extends string> {
  /** To be passed on to the double as they are. */
  readonly common: Required<ListeningOptions> & { readonly fault: F | undefined };
  readonly has: (flag: string) => boolean;
  readonly text: (flag: string) => string | undefined;
  /** 0 where it is not given. */
  readonly number: (flag: string) => number;
}

interface ByHand<F extends string> {
  readonly name: string;
  readonly usage: string;
  readonly faults: readonly F[];
  /** Beside --help, --host, --port, --start-delay-ms and --fault. */
  readonly flags: Readonly<Record<string, "string" | "boolean">>;
  readonly start: (flags: Flags<F>) => Promise<Listening>;
}

/** Runs a double as a program of its own. It listens where --host and --port say, else where HOST and PORT do. */
export function runByHand<F extends string>({ name, usage, faults, flags, start }: ByHand<F>): void {
  const own = Object.entries({ host: "string", port: "string", "start-delay-ms": "string", fault: "string", ...flags });
  const { values } = parseArgs({
    options: {
      help: { type: "boolean" },
      ...Object.fromEntries(own.map(([flag, type]) => [flag, { type: type === "boolean" ? type : "string" }])),
    },
  });
  const said = new Map(Object.entries(values));
  if (said.has("help")) return console.log(usage);
  const text = (flag: string): string | undefined => said.get(flag)?.toString();
  const fault = faults.find((each) => each === text("fault"));
  if (fault === undefined && said.has("fault")) throw new Error(`${name} double: no fault is called ${text("fault")}`);
  const common = {
    host: text("host") ?? process.env["HOST"] ?? "127.0.0.1",
    port: Number(text("port") ?? process.env["PORT"] ?? 0),
    fault,
    onDeath: () => process.exit(1),
  };
  const told = {
    common,
    has: (flag: string) => said.has(flag),
    text,
    number: (flag: string) => Number(text(flag) ?? 0),
  };
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
