import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { ApiError } from "../../api/errors.ts";
import { newTokenSchema, type CreatedToken, type TokenView } from "../../api/token.ts";
import type { Identity } from "../../api/scopes.ts";
import type { TokenStore } from "../../store/tokens.ts";
import type { Authenticator } from "./authenticator.ts";

export interface AuthRouteContext {
  readonly authenticator: Authenticator;
  readonly tokens: Pick<TokenStore, "list" | "create" | "revoke">;
  readonly log: Logger;
}

/** `/api/auth`: tokens, and who the caller is. Bodies are those of `src/api/token.ts`. */
export function registerAuthRoutes(app: FastifyInstance, { authenticator, tokens, log }: AuthRouteContext): void {
  const isPublic = { config: { scope: "public" as const } };
  const isAdmin = { config: { scope: "admin" as const } };

  app.get("/api/auth/tokens", isAdmin, async (): Promise<{ object: "list"; data: TokenView[] }> => {
    return { object: "list", data: await tokens.list() };
  });
  app.post("/api/auth/tokens", isAdmin, async (request, reply): Promise<CreatedToken> => {
    const wanted = newTokenSchema.safeParse(request.body);
    if (!wanted.success) {
      const problems = wanted.error.issues.map(({ path, message }) => ({ path, message }));
      throw new ApiError("dispatch.invalid_request", {
        message: "a token needs a label and a scope",
        details: { problems },
      });
    }
    const created = await tokens.create(wanted.data);
    log.info(`${callerOf(request)} created token ${created.id} of scope ${created.scope}`);
    void reply.code(201).header("cache-control", "no-store");
    return created;
  });
  app.delete<{ Params: { id: string } }>("/api/auth/tokens/:id", isAdmin, async (request, reply) => {
    const { id } = request.params;
    if (!(await tokens.revoke(id))) {
      throw new ApiError("system.not_found", { message: `no token has the id "${id.slice(0, 64)}"` });
    }
    log.info(`${callerOf(request)} revoked token ${id}`);
    return await reply.code(204).send();
  });
  app.get("/api/auth/status", isPublic, (request) => ({
    enabled: authenticator.isEnabled,
    modes: authenticator.isEnabled ? ["token", "proxy"] : ["none"],
    proxy_trusted: authenticator.isEnabled && authenticator.isTrusted(request.raw),
  }));
  app.get("/api/auth/login", isPublic, () => ({
    message: authenticator.isEnabled
      ? "There is no login here: browsers log in at the edge proxy in front of this service, programs send a token as Authorization: Bearer."
      : "Authentication is off: nobody needs to log in.",
  }));
  app.get("/api/auth/me", { config: { scope: "any" } }, (request): Omit<Identity, "tokenId"> => {
    const { identity, scope, source } = request.identity ?? { identity: "anonymous", scope: "admin", source: "none" };
    return { identity, scope, source };
  });
}

/** Labels and names are a person's own words: told to whoever lists tokens, not to the log. */
function callerOf({ identity }: FastifyRequest): string {
  if (identity === undefined || identity.source === "none") return "somebody, authentication being off,";
  return identity.source === "proxy" ? "the proxy's user" : `token ${identity.tokenId ?? ""}`;
}
