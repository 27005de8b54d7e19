import type { IncomingMessage } from "node:http";
import { ApiError } from "../../api/errors.ts";
import type { Identity, ScopeClass } from "../../api/scopes.ts";
import type { Principal } from "../proxy/call.ts";
import type { HostGuard, RouteKind } from "../http/hosts.ts";
import type { Authenticator } from "./authenticator.ts";

/** The checks of every request before it is read or routed further: for Fastify and the hot path alike. */
export class Gate {
  readonly #guard: HostGuard;
  readonly #authenticator: Authenticator;

  constructor(guard: HostGuard, authenticator: Authenticator) {
    this.#guard = guard;
    this.#authenticator = authenticator;
  }

  /** Synchronous. Throws ApiError of `auth.*`; the identity distinguishes callers for shared calls and fairness. */
  admit(request: IncomingMessage, wanted: ScopeClass, kind: RouteKind): Identity {
    this.#checkHost(request, wanted, kind);
    return this.#authenticator.check(request, wanted);
  }

  /** Whether a caller that was admitted may continue. */
  mayStill(request: IncomingMessage, wanted: ScopeClass): boolean {
    return this.#authenticator.mayStill(request, wanted);
  }

  /** Like `admit`, for a route of `/v1`. */
  principalOf(request: IncomingMessage): Principal {
    this.#checkHost(request, "v1", "engine");
    const caller = this.#authenticator.judge(request, "v1");
    if (caller instanceof ApiError) throw caller;
    const { source, identity, tokenId, scope } = caller;
    const owner = `${source} ${tokenId ?? identity}`;
    const client = source === "none" ? (request.socket.remoteAddress ?? "") : owner;
    return { client, scope, owner };
  }

  /**
   * A page that rebound its name to our address may send any text as a token, but has none that is valid. So a program with a
   * token may call /v1 by any name, also one with a browser's `User-Agent`, where its token is checked.
   */
  #checkHost(request: IncomingMessage, wanted: ScopeClass, kind: RouteKind): void {
    try {
      this.#guard.check(request, kind);
    } catch (error) {
      const isForPrograms = kind === "v1" || kind === "engine";
      if (!isForPrograms || !this.#authenticator.isByToken(request, wanted)) throw error;
    }
  }
}
