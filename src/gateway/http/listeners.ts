import type { Server as HttpServer } from "node:http";
import { Server, type ListenOptions, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { errorCode } from "../../lib/error-code.ts";
import { steadyNow } from "../../lib/steady-clock.ts";

/**
 * Node takes one connection from a listening socket per turn of its event loop (libuv 1.52, `uv__server_io`). A turn of a
 * gateway with a thousand streams is long, and those who connect would wait for as many turns as stand before them. The
 * kernel spreads connections over all sockets of one port, so that each turn takes as many as there are sockets.
 */
const socketCount = 8;
/** Connections that may wait in the kernel, per socket; it takes no more than net.core.somaxconn. */
const backlog = 4096;
/** How long another gateway that begins to listen on the same port may take for it. */
const lockTimeoutMs = 2000;
const lockRetryMs = 20;

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** The sockets on which a server's connections come, beside the server's own. */
export class Listeners {
  readonly #server: HttpServer;
  readonly #others: Server[];
  /** Other servers that stop listening with these. */
  readonly #releases: (() => void)[] = [];
  #closed: Promise<unknown> | undefined;

  constructor(server: HttpServer, others: readonly Server[]) {
    this.#server = server;
    this.#others = [...others];
  }

  /** Also serves the connections to another port. Returns the failure where that port is not to be had. */
  async also(address: ListenAddress, onConnection: (socket: Socket) => void): Promise<Error | undefined> {
    const other = handingTo(this.#server, onConnection);
    try {
      await listening(other, { ...address, backlog });
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
    this.#others.push(other);
    return undefined;
  }

  /** Has a server of its own stop listening when these do; its connections are not waited for. */
  with(release: () => void): void {
    this.#releases.push(release);
  }

  /** Listens no more, at once; what is connected stays. Resolves when all that came by these sockets has left. */
  close(): Promise<unknown> {
    for (const release of this.#releases) release();
    // Not the server's own `close`, which would end idle connections.
    if (this.#server.listening) Server.prototype.close.call(this.#server);
    this.#closed ??= Promise.all(this.#others.map((other) => new Promise((resolve) => other.close(resolve))));
    return this.#closed;
  }
}

/**
 * Listens by `listen`, which is the server's own, and on more sockets of the same port. Throws as `listen` does, and
 * where any other program listens there, another gateway of the same user included: to the kernel alone, two of them
 * could share a port and would get half of the requests each.
 */
export async function openListeners(
  server: HttpServer,
  { host, port }: ListenAddress,
  listen: (how: ListenAddress & { readonly backlog: number; readonly reusePort: boolean }) => Promise<unknown>,
): Promise<Listeners> {
  await using _lock = await startLock(port);
  // A socket that does not share fails where anybody listens. Port 0 is one where nobody does.
  if (port !== 0) await (await listening(new Server(), { host, port }))[Symbol.asyncDispose]();
  await listen({ host, port, backlog, reusePort: true });
  const address = server.address();
  const own = typeof address === "object" && address !== null ? address : undefined;
  if (own === undefined) return new Listeners(server, []);
  const others: Server[] = [];
  await using stack = new AsyncDisposableStack();
  stack.defer(() => void Server.prototype.close.call(server));
  for (let count = 1; count < socketCount; count++) {
    const other = handingTo(server, () => undefined);
    stack.use(await listening(other, { host: own.address, port: own.port, backlog, reusePort: true }));
    others.push(other);
  }
  stack.move();
  return new Listeners(server, others);
}

/** The port on which a server listens; undefined while it does not. */
export function portOf(server: Server): number | undefined {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : undefined;
}

/** A socket whose connections the server serves; made as node:http makes its own. */
function handingTo(server: HttpServer, onConnection: (socket: Socket) => void): Server {
  const other = new Server({ allowHalfOpen: true, noDelay: true }, (socket) => {
    onConnection(socket);
    server.emit("connection", socket);
  });
  other.maxConnections = server.maxConnections;
  // While it listens; before, the caller that opens it gets the error.
  other.on("listening", () => other.on("error", (error) => server.emit("error", error)));
  return other;
}

/**
 * Between seeing that nobody listens and listening another gateway could do the same. An abstract socket is as far seen as
 * a port, and ends with its process. Where it cannot be had, or somebody else keeps it, only that moment is unguarded.
 */
async function startLock(port: number): Promise<AsyncDisposable | undefined> {
  const end = steadyNow() + lockTimeoutMs;
  for (;;) {
    try {
      return await listening(new Server(), { path: `\0berth-listens-${port}` });
    } catch (error) {
      if (errorCode(error) !== "EADDRINUSE" || steadyNow() >= end) return undefined;
    }
    await pause(lockRetryMs);
  }
}

async function listening(server: Server, options: ListenOptions): Promise<Server> {
  const { promise, resolve, reject } = Promise.withResolvers<Server>();
  server.once("error", reject);
  server.listen(options, () => resolve(server));
  await promise;
  server.off("error", reject);
  return server;
}
