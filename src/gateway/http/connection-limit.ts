import type { Server } from "node:http";
import { ApiError } from "../../api/errors.ts";

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

/** The limits for this number of open files. */
export function connectionLimits(files: number): ConnectionLimits {
  const served = Math.max(leastServed, Math.floor((files - ownFiles - refusedLimit) / 2));
  return { served, open: served + refusedLimit };
}

/** Keeps descriptors for served clients: later connections are refused early. */
export class ConnectionLimiter {
  readonly #limits: ConnectionLimits | undefined;
  #count = 0;
  #late = new WeakSet<object>();

  constructor(limits: ConnectionLimits | undefined) {
    this.#limits = limits;
  }

  watch(server: Server): void {
    const limits = this.#limits;
    if (limits === undefined) return;
    // Of each socket that listens; of all together, below.
    server.maxConnections = limits.open;
    server.on("connection", (socket) => {
      this.#count += 1;
      if (this.#count > limits.open) socket.destroy();
      if (this.#count > limits.served) this.#late.add(socket);
      socket.once("close", () => (this.#count -= 1));
    });
  }

  /** Why a request on this connection is refused; undefined: it is served. */
  refusal(socket: object): ApiError | undefined {
    // Cheap when no connection is refused, which is the usual case.
    if (this.#limits === undefined || this.#count <= this.#limits.served || !this.#late.has(socket)) return undefined;
    return new ApiError("system.overloaded", {
      message: "the gateway has no room for more connections",
      headers: { "retry-after": "5", connection: "close" },
    });
  }
}
