import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { ApiError } from "../../api/errors.ts";
import { steadyNow } from "../../lib/steady-clock.ts";

/** Descriptors for the gateway itself: files, watchers, pipes, its own connections. */
const ownFiles = 64;
/** Connections beyond the served ones that still get an answer with the reason. */
const refusedLimit = 32;
const leastServed = 16;

export interface ConnectionLimits {
  /** Client connections served at once: each may need another connection to an engine. */
  readonly served: number;
  /** Beyond this number a connection is closed at once. */
  readonly open: number;
}

/**
 * How many files and connections this process may have open at once: `RLIMIT_NOFILE`, whose soft value Node raises to
 * the hard one as it starts, for itself and its children. Undefined where the value is unknown or unlimited.
 */
export function openFileLimit(): number | undefined {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}

/** The limits for this number of open files. */
export function connectionLimits(files: number): ConnectionLimits {
  const served = Math.max(leastServed, Math.floor((files - ownFiles - refusedLimit) / 2));
  return { served, open: served + refusedLimit };
}

/** The line of the log about the limits. */
export function limitText(files: number, { served }: ConnectionLimits): string {
  return `${files} files and connections may be open at once (the hard limit of RLIMIT_NOFILE): ${served} clients are served`;
}

/** A client that has sent no whole header after this time may have to make room. */
const silentMs = 500;

/**
 * Keeps descriptors for served clients: later connections are refused early. Where none is left, a connection that has
 * sent no whole header for a while ends, the oldest first, and those that wait for another request: neither may keep a
 * client out.
 */
export class ConnectionLimiter {
  readonly #limits: ConnectionLimits | undefined;
  readonly #open = new Set<Socket>();
  /** The connections without a whole header, and since when, the oldest first. */
  readonly #silent = new Map<Socket, number>();
  readonly #late = new WeakSet<Socket>();

  constructor(limits: ConnectionLimits | undefined) {
    this.#limits = limits;
  }

  watch(server: Server): void {
    const limits = this.#limits;
    if (limits === undefined) return;
    // Not by Node's own limit: a connection that it drops makes no room.
    server.on("connection", (socket) => {
      if (this.#open.size >= limits.served && !this.#makeRoom(server)) this.#late.add(socket);
      if (this.#open.size >= limits.open) {
        socket.destroy();
        return;
      }
      this.#open.add(socket);
      this.#silent.set(socket, steadyNow());
      socket.once("close", () => this.#forget(socket));
    });
  }

  /** Called for each request: why a request on this connection is refused; undefined: it is served. */
  refusal(socket: Socket): ApiError | undefined {
    if (this.#limits === undefined) return undefined;
    this.#silent.delete(socket);
    // Cheap when no connection is refused, which is the usual case.
    if (this.#open.size <= this.#limits.served || !this.#late.has(socket)) return undefined;
    return new ApiError("system.overloaded", {
      message: "the gateway has no room for more connections",
      headers: { "retry-after": "5", connection: "close" },
    });
  }

  /** False: no connection can end at once. */
  #makeRoom(server: Server): boolean {
    const [oldest] = this.#silent;
    if (oldest !== undefined && steadyNow() - oldest[1] >= silentMs) {
      this.#forget(oldest[0]);
      oldest[0].destroy();
      return true;
    }
    server.closeIdleConnections();
    return false;
  }

  #forget(socket: Socket): void {
    this.#open.delete(socket);
    this.#silent.delete(socket);
  }
}
