import type { IncomingMessage } from "node:http";
import { ApiError } from "../../api/errors.ts";
import type { Identity, ScopeClass } from "../../api/scopes.ts";
import type { Asker } from "../call.ts";
import type { HostGuard, RouteKind } from "../hosts.ts";
import type { Authenticator } from "./authenticator.ts";

/** What every request passes before anything of it is read or routed further: Fastify's and the hot path's alike. */
export class Gate {
  readonly #guard: HostGuard;
  readonly #authenticator: Authenticator;

  constructor(guard: HostGuard, authenticator: Authenticator) {
    this.#guard = guard;
    this.#authenticator = authenticator;
  }

  /** At once. Throws ApiError of `auth.*`; the identity tells callers apart for single-flight and fairness. */
  admit(request: IncomingMessage, wanted: ScopeClass, kind: RouteKind): Identity {
    this.#guard.check(request, kind);
    return this.#authenticator.check(request, wanted);
  }

  /** As `admit`, for a route of `/v1`; refused credentials are returned. */
  asker(request: IncomingMessage): Asker | ApiError {
    this.#guard.check(request, "engine");
    const caller = this.#authenticator.judge(request, "v1");
    if (caller instanceof ApiError) return caller;
    const { source, identity, tokenId, scope } = caller;
    const principal = `${source} ${tokenId ?? identity}`;
    const client = source === "none" ? (request.socket.remoteAddress ?? "") : principal;
    return { client, scope, principal };
  }
}
