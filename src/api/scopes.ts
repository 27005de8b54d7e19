/** The rights of a token: service specification, "Scopes". */
export const tokenScopes = ["admin", "all", "v1-only", "read-only"] as const;
export type TokenScope = (typeof tokenScopes)[number];

/** The callers that a route accepts once authentication is on (CONTRACT "Auth"). `any`: every caller with valid credentials. */
export const scopeClasses = ["public", "any", "v1", "read", "admin"] as const;
export type ScopeClass = (typeof scopeClasses)[number];

/** Open to strangers also behind the edge proxy: service specification, "Public routes". */
export const publicPaths = [
  "/api/health/system",
  "/api/status",
  "/api/metrics",
  "/api/features",
  "/api/install/state",
  "/api/install/complete",
  "/api/config/urls",
  "/api/auth/status",
  "/api/auth/login",
  "/models",
  "/v1/models",
] as const;
/** For programs that monitor this machine from within: public too, but not opened by the proxy. */
export const probePaths = ["/livez", "/readyz", "/health", "/metrics"] as const;

const grants = {
  admin: ["public", "any", "v1", "read", "admin"],
  all: ["public", "any", "v1", "read"],
  "v1-only": ["public", "any", "v1"],
  "read-only": ["public", "any", "read"],
} as const satisfies Record<TokenScope, readonly ScopeClass[]>;

/** Whether a token of that scope may call routes of that class. */
export function isGranted(scope: TokenScope, wanted: ScopeClass): boolean {
  const granted: readonly ScopeClass[] = grants[scope];
  return granted.includes(wanted);
}

/** An authenticated caller. Single-flight and fairness distinguish callers by it. */
export interface Identity {
  /** The token's label, the proxy's user, or `anonymous` where authentication is off. */
  readonly identity: string;
  readonly scope: TokenScope;
  readonly source: "token" | "proxy" | "none";
  /** Unlike the label, it is unique per token. */
  readonly tokenId?: string;
}
