import type { Server as HttpServer } from "node:http";
import { Server, type ListenOptions, type Socket } from "node:net";
import { join } from "node:path";
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";
import type { Config } from "../../api/config.ts";
import {
  gatewayReportFile,
  gatewayReportSchema,
  type GatewayReport,
  type GatewayRole,
} from "../../api/gateway-report.ts";
import { announce, announced, type Announcement } from "../../lib/announcement.ts";
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

/** A socket is closed in a turn of the event loop that took less, and gave it no connection. */
const shortTurnMs = 0.2;
/** After so many turns a socket is closed in any turn that gave it no connection; after ten times as many in any turn. */
const patientTurns = 200;

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** A gateway that may share its ports with the other one of the same state directory. */
export interface Sharing {
  readonly role: GatewayRole;
  readonly stateDir: string;
  readonly report: () => GatewayReport;
}

/** The role and the report by which this gateway shares its ports; undefined in a cluster, where each gateway has its own ports. */
export function sharingOf(
  { store, stateDir }: Pick<Config, "store" | "stateDir">,
  gateway: { readonly role: GatewayRole | undefined; readonly version: string; readonly isReady: () => boolean },
): Sharing | undefined {
  if (store !== "files") return undefined;
  const { role = "gateway", version, isReady } = gateway;
  return { role, stateDir, report: () => ({ pid: process.pid, version, isReady: isReady() }) };
}

/** The sockets on which a server's connections come, beside the server's own. */
export class Listeners {
  readonly #server: HttpServer;
  readonly #others: Server[] = [];
  /** Other servers that stop listening with these. */
  readonly #beside: Server[] = [];
  readonly #sharing: Sharing | undefined;
  readonly #reports: Announcement[] = [];
  #hasAll = false;
  #released: Promise<void> | undefined;
  #left: readonly Promise<unknown>[] = [];

  constructor(server: HttpServer, sharing: Sharing | undefined) {
    this.#server = server;
    this.#sharing = sharing;
  }

  /**
   * Listens by `listen`, which is the server's own, and on more sockets of the same port. Throws as `listen` does, and
   * where another program listens there, as `#open` says.
   */
  async listen(
    { host, port }: ListenAddress,
    listen: (how: ListenAddress & { readonly backlog: number; readonly reusePort: boolean }) => Promise<unknown>,
  ): Promise<void> {
    await this.#open({ host, port }, async () => {
      await listen({ host, port, backlog, reusePort: true });
      const address = this.#server.address();
      const own = typeof address === "object" && address !== null ? address : undefined;
      if (own === undefined) return;
      await using stack = new AsyncDisposableStack();
      stack.defer(() => void Server.prototype.close.call(this.#server));
      const others: Server[] = [];
      for (let count = 1; count < socketCount; count++) {
        const other = handingTo(this.#server, () => undefined);
        stack.use(await listening(other, { host: own.address, port: own.port, backlog, reusePort: true }));
        others.push(other);
      }
      stack.move();
      this.#others.push(...others);
    });
  }

  /** Also serves the connections to another port. Returns the failure where that port is not to be had. */
  async also(address: ListenAddress, onConnection: (socket: Socket) => void): Promise<Error | undefined> {
    return await this.#listenToo(handingTo(this.#server, onConnection), address, this.#others);
  }

  /**
   * Has a separate server listen, and listen no more when these do; its connections are not waited for. Returns the
   * failure where the port is not to be had.
   */
  async with(server: Server, address: ListenAddress): Promise<Error | undefined> {
    return await this.#listenToo(server, address, this.#beside);
  }

  /** All ports are open. Not before does it report that it is ready: an update then ends the other gateway's. */
  opened(): void {
    this.#hasAll = true;
    this.report();
  }

  /** Tells the other gateway, and an update, whether this one is ready; otherwise they learn it within a second. */
  report(): void {
    for (const report of this.#reports) report.refresh();
  }

  /**
   * The other gateway of the same state directory listens on this port too, and is ready. Told without waiting: a gateway
   * that stops knows at once whether it refuses new requests.
   */
  isRelieved(): boolean {
    const port = portOf(this.#server);
    if (this.#sharing === undefined || port === undefined) return false;
    return gatewayReportSchema.safeParse(announced(otherReport(port, this.#sharing))).data?.isReady === true;
  }

  /**
   * Listens no more; what is connected stays. Linux resets the connections that wait in the queue of a socket which is
   * closed. So each socket is closed right after a turn of the event loop that has looked at its queue and found it
   * empty. What comes in between is reset: in microseconds, where the turn was short (docs/adr/0043-handover.md).
   */
  async release(): Promise<void> {
    this.#released ??= this.#release();
    await this.#released;
  }

  /** Listens no more. Resolves when all that came by these sockets has left. */
  async close(): Promise<void> {
    await this.release();
    await Promise.all(this.#left);
  }

  async #release(): Promise<void> {
    for (const report of this.#reports) report[Symbol.dispose]();
    this.#left = this.#others.map((other) => new Promise((resolve) => other.once("close", resolve)));
    const open = new Set([this.#server, ...this.#others, ...this.#beside].filter((server) => server.listening));
    const busy = new Set<Server>();
    for (const server of open) server.on("connection", () => busy.add(server));
    await turn();
    for (let turns = 0; open.size > 0; turns++) {
      const began = steadyNow();
      busy.clear();
      // Right after the loop has asked the kernel for events, and has handled them.
      await turn();
      const isShort = steadyNow() - began < shortTurnMs;
      const [quiet] = isShort || turns >= patientTurns ? open.difference(busy) : [];
      const [any] = turns >= 10 * patientTurns ? open : [];
      const server = quiet ?? any;
      if (server === undefined) continue;
      // Not the HTTP server's own `close`, which would end idle connections.
      Server.prototype.close.call(server);
      open.delete(server);
    }
  }

  async #listenToo(server: Server, address: ListenAddress, list: Server[]): Promise<Error | undefined> {
    try {
      await this.#open(address, async () => void (await listening(server, { ...address, backlog, reusePort: true })));
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
    list.push(server);
    return undefined;
  }

  /**
   * Has `listen` listen on the port while no other program does, or the other gateway of the same state directory alone.
   * Throws EADDRINUSE otherwise: to the kernel, two gateways of one user could share any port, and would get half of the
   * requests each.
   */
  async #open({ host, port }: ListenAddress, listen: () => Promise<void>): Promise<void> {
    await using _lock = await startLock(port);
    // A socket that does not share fails where anybody listens. Port 0 is one where nobody does.
    if (port !== 0) {
      try {
        await (await listening(deaf(), { host, port }))[Symbol.asyncDispose]();
      } catch (error) {
        const isOurs = errorCode(error) === "EADDRINUSE" && this.#sharing !== undefined;
        if (!isOurs || announced(otherReport(port, this.#sharing)) === undefined) throw error;
        if (announced(ownReport(port, this.#sharing)) !== undefined) throw error;
      }
    }
    await listen();
    const sharing = this.#sharing;
    if (sharing === undefined || port === 0) return;
    const report = (): GatewayReport => {
      const own = sharing.report();
      return { ...own, isReady: own.isReady && this.#hasAll };
    };
    this.#reports.push(announce(ownReport(port, sharing), report));
  }
}

/** The port on which a server listens; undefined while it does not. */
export function portOf(server: Server): number | undefined {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : undefined;
}

/** The file in which this gateway keeps its report for the port. */
function ownReport(port: number, { stateDir, role }: Sharing): string {
  return join(stateDir, gatewayReportFile(port, role));
}

/** The file of the other gateway of the state directory for the port. */
function otherReport(port: number, { stateDir, role }: Sharing): string {
  return join(stateDir, gatewayReportFile(port, role === "gateway" ? "standby" : "gateway"));
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
      return await listening(deaf(), { path: `\0berth-listens-${port}` });
    } catch (error) {
      if (errorCode(error) !== "EADDRINUSE" || steadyNow() >= end) return undefined;
    }
    await pause(lockRetryMs);
  }
}

/** A server that keeps nobody who connects: a connection would hold up its end. */
function deaf(): Server {
  return new Server((socket) => socket.on("error", () => undefined).destroy());
}

async function listening(server: Server, options: ListenOptions): Promise<Server> {
  const { promise, resolve, reject } = Promise.withResolvers<Server>();
  server.once("error", reject);
  server.listen(options, () => resolve(server));
  await promise;
  server.off("error", reject);
  return server;
}
