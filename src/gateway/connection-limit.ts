import type { Server } from "node:http";
import { ApiError } from "../api/errors.ts";

/** Descriptors that the gateway needs for itself: files, watchers, pipes, connections of its own. */
const ownFiles = 64;
/** Connections beyond those served that still hear why they are not. */
const toldLimit = 32;
const leastServed = 16;

export interface ConnectionLimits {
  /** So many connections of clients are served at once: each may need another one to an engine. */
  readonly served: number;
  /** Beyond it a connection is closed as it comes. */
  readonly open: number;
}

/** By how many files may be open. */
export function connectionLimits(files: number): ConnectionLimits {
  const served = Math.max(leastServed, Math.floor((files - ownFiles - toldLimit) / 2));
  return { served, open: served + toldLimit };
}

/** Keeps descriptors for those who are served: whoever comes beyond them is sent away early. */
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
    server.maxConnections = limits.open;
    server.on("connection", (socket) => {
      this.#count += 1;
      if (this.#count > limits.served) this.#late.add(socket);
      socket.once("close", () => (this.#count -= 1));
    });
  }

  /** Why a request that came by this connection is not served; undefined: it is. */
  refusal(socket: object): ApiError | undefined {
    // Cheap where nobody is turned away, which is nearly always.
    if (this.#limits === undefined || this.#count <= this.#limits.served || !this.#late.has(socket)) return undefined;
    return new ApiError("system.overloaded", {
      message: "the gateway has no room for more connections",
      headers: { "retry-after": "5", connection: "close" },
    });
  }
}
