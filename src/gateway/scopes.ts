/** Who may call a route once authentication is on (CONTRACT "Auth"); every route names one. */
export const scopeClasses = ["public", "v1", "read", "admin"] as const;
export type ScopeClass = (typeof scopeClasses)[number];

declare module "fastify" {
  interface FastifyContextConfig {
    scope?: ScopeClass;
  }
}
