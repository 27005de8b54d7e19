import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { ApiError, type ApiErrorOptions, type ErrorCode } from "../../api/errors.ts";
import { isGranted, type Identity, type ScopeClass } from "../../api/scopes.ts";
import { parseToken, type PresentedToken, type TokenRecord } from "../../api/token.ts";
import { AddressSet, canonicalAddress, networkOf } from "../../lib/addresses.ts";
import type { HostGuard, RouteKind } from "../http/hosts.ts";
import type { Principal } from "../proxy/call.ts";
import { FailureThrottle } from "./throttle.ts";

export type AuthCode = Extract<ErrorCode, `auth.${string}`>;

export interface GateOptions {
  readonly guard: HostGuard;
  /** False: everybody who reaches the service may do everything. */
  readonly isEnabled: boolean;
  /** Synchronous; throws where the store cannot be read. */
  readonly verify: (token: PresentedToken) => TokenRecord | undefined;
  /** Whether `verify` refused a token only for want of a confirmation. */
  readonly isUnconfirmed?: (token: PresentedToken) => boolean;
  /** Addresses and CIDR blocks whose X-Forwarded-Email and X-Forwarded-For are trusted. */
  readonly trustedProxies: readonly string[];
  readonly throttle?: FailureThrottle;
  readonly onRefused?: (code: AuthCode) => void;
  /** A peer has failed too often; called once per peer and window. */
  readonly onThrottled?: (peer: string) => void;
}

const everybody: Identity = { identity: "anonymous", scope: "admin", source: "none" };
/** The identity on public routes, which check no credentials. */
const nobody: Identity = { identity: "anonymous", scope: "read-only", source: "none" };

const unconfirmed =
  "this token was made while authentication was off: it counts after `berth token list --confirm` on the service's machine";

/**
 * A user's name as a proxy sends it: visible characters, and one name only. A list means that two parties wrote the
 * header.
 */
const userPattern = /^[^\s,\p{Cc}]{1,254}$/u;

/**
 * The checks of every request before it is read or routed further: for Fastify and the hot path alike. The host first, then
 * who the caller is and what the caller may do. Synchronous: a `stat` and a hash at most for a bearer token. A bearer token
 * always takes precedence over the proxy's header, also when it is wrong. Only failures are throttled; a valid token is
 * never delayed.
 */
export class Gate {
  readonly #options: GateOptions;
  readonly #trusted: AddressSet;
  readonly #throttle: FailureThrottle;

  constructor(options: GateOptions) {
    this.#options = options;
    this.#trusted = new AddressSet(options.trustedProxies);
    this.#throttle = options.throttle ?? new FailureThrottle();
  }

  get isEnabled(): boolean {
    return this.#options.isEnabled;
  }

  /**
   * The identity distinguishes callers for shared calls and fairness. Throws ApiError `auth.required`, `auth.invalid`,
   * `auth.throttled` or `auth.forbidden`.
   */
  admit(request: IncomingMessage, wanted: ScopeClass, kind: RouteKind): Identity {
    this.#checkHost(request, wanted, kind);
    const caller = this.#judge(request, wanted);
    if (caller instanceof ApiError) throw caller;
    return caller;
  }

  /** Like `admit`, for a route of `/v1`. */
  principalOf(request: IncomingMessage): Principal {
    const { source, identity, tokenId, scope } = this.admit(request, "v1", "engine");
    const owner = `${source} ${tokenId ?? identity}`;
    const client = source === "none" ? (request.socket.remoteAddress ?? "") : owner;
    return { client, scope, owner };
  }

  /**
   * Whether an admitted caller may continue: its token still exists, with a sufficient scope. Counts no failure. False also
   * where that is unknown now.
   */
  mayStill(request: IncomingMessage, wanted: ScopeClass): boolean {
    if (!this.#options.isEnabled || wanted === "public") return true;
    const given = tokenTextOf(request.headers);
    // A trusted proxy named the user for this request.
    if (given === undefined) return true;
    const token = parseToken(given);
    try {
      const record = token === undefined ? undefined : this.#options.verify(token);
      return record !== undefined && isGranted(record.scope, wanted);
    } catch {
      return false;
    }
  }

  /** Whether the request's own peer may name a user. */
  isTrusted(request: IncomingMessage): boolean {
    const peer = canonicalAddress(request.socket.remoteAddress);
    return peer !== undefined && this.#trusted.has(peer);
  }

  /**
   * A page that rebound its name to our address may send any text as a token, but has none that is valid. So a program with a
   * token may call /v1 by any name, also one with a browser's `User-Agent`, where its token is checked.
   */
  #checkHost(request: IncomingMessage, wanted: ScopeClass, kind: RouteKind): void {
    try {
      this.#options.guard.check(request, kind);
    } catch (error) {
      const isForPrograms = kind === "v1" || kind === "engine";
      if (!isForPrograms || !this.#isByToken(request, wanted)) throw error;
    }
  }

  /** Whether the request has a token that is verified next; on a public route, where none is, a valid one. */
  #isByToken(request: IncomingMessage, wanted: ScopeClass): boolean {
    if (!this.#options.isEnabled || tokenTextOf(request.headers) === undefined) return false;
    return wanted !== "public" || this.mayStill(request, "any");
  }

  /**
   * A refusal is returned: V8 does not optimise functions that end by throwing, and a flood of wrong tokens must cost
   * little.
   */
  #judge(request: IncomingMessage, wanted: ScopeClass): Identity | ApiError {
    if (!this.#options.isEnabled) return everybody;
    if (wanted === "public") return nobody;
    const caller = this.#callerOf(request);
    if (caller instanceof ApiError || isGranted(caller.scope, wanted)) return caller;
    return this.#refusal("auth.forbidden", request, {
      message: `this needs a higher scope than ${caller.scope}`,
      details: { scope: caller.scope },
    });
  }

  #callerOf(request: IncomingMessage): Identity | ApiError {
    const given = tokenTextOf(request.headers);
    if (given !== undefined) {
      const token = parseToken(given);
      const record = token === undefined ? undefined : this.#options.verify(token);
      if (record === undefined) {
        const isUnconfirmed = token !== undefined && this.#options.isUnconfirmed?.(token) === true;
        return this.#failed(request, isUnconfirmed ? { message: unconfirmed } : {});
      }
      return { identity: record.label, scope: record.scope, source: "token", tokenId: record.id };
    }
    const { authorization, "x-api-key": key, "x-forwarded-email": user } = request.headers;
    if (typeof user === "string" && userPattern.test(user) && this.isTrusted(request)) {
      return { identity: user, scope: "admin", source: "proxy" };
    }
    if (authorization !== undefined || key !== undefined) return this.#failed(request);
    return this.#refusal("auth.required", request, { headers: { "www-authenticate": "Bearer" } });
  }

  /** Counts the failure against the peer. */
  #failed(request: IncomingMessage, options: ApiErrorOptions = {}): ApiError {
    const peer = this.#peerOf(request);
    const throttled = this.#throttle.failed(networkOf(peer));
    if (throttled === undefined) {
      return this.#refusal("auth.invalid", request, {
        ...options,
        headers: { "www-authenticate": 'Bearer error="invalid_token"' },
      });
    }
    if (throttled.isFirst) this.#options.onThrottled?.(peer);
    const headers = { "retry-after": String(throttled.retryAfterSeconds) };
    return this.#refusal("auth.throttled", request, { headers });
  }

  #refusal(code: AuthCode, request: IncomingMessage, options: ApiErrorOptions): ApiError {
    this.#options.onRefused?.(code);
    return new ApiError(code, { ...options, headers: { ...closing(request), ...options.headers } });
  }

  /** The socket's peer; behind a trusted proxy the proxy's own peer: the last entry, which the proxy wrote itself. */
  #peerOf(request: IncomingMessage): string {
    const peer = canonicalAddress(request.socket.remoteAddress) ?? "local";
    if (!this.#trusted.has(peer)) return peer;
    const forwarded = request.headers["x-forwarded-for"];
    const last = typeof forwarded === "string" ? forwarded.slice(forwarded.lastIndexOf(",") + 1).trim() : undefined;
    return canonicalAddress(last) ?? peer;
  }
}

/**
 * The text after `Bearer`, or a token in `x-api-key`, where clients of Anthropic's API have it; undefined for another
 * scheme or key.
 */
function tokenTextOf({ authorization, "x-api-key": key }: IncomingHttpHeaders): string | undefined {
  if (authorization !== undefined && /^bearer(?: |$)/i.test(authorization)) return authorization.slice(7).trim();
  return typeof key === "string" && key.startsWith("svc_") ? key : undefined;
}

/** The answer does not wait for an unread body, unless the body is small enough to have arrived. */
function closing(request: IncomingMessage): Readonly<Record<string, string>> {
  const length = request.headers["content-length"];
  const isLong = length !== undefined && Number(length) > 65_536;
  return isLong || request.headers["transfer-encoding"] !== undefined ? { connection: "close" } : {};
}
