import type { FastifyInstance } from "fastify";
import { apiRoutes } from "../../api/management/routes.ts";
import { adminHandlers } from "./admin-handlers.ts";
import { serveApi } from "./api-server.ts";
import { viewOf, type ManagementContext } from "./context.ts";
import { eventHandlers } from "./event-handlers.ts";
import { modelHandlers } from "./model-handlers.ts";
import { statusPage } from "./page.ts";
import { slotHandlers } from "./slot-handlers.ts";
import { systemHandlers } from "./system-handlers.ts";

/** Everything but the `/v1` routes that ask an engine. Tests are strict: every answer is held against its schema. */
export function registerRoutes(app: FastifyInstance, context: ManagementContext, options: { isStrict: boolean }): void {
  const events = eventHandlers(context);
  app.addHook("onClose", () => events[Symbol.dispose]());
  serveApi(app, {
    routes: apiRoutes,
    handlers: {
      ...slotHandlers(context),
      ...modelHandlers(context),
      ...adminHandlers(context),
      ...systemHandlers(context),
      events: events.events,
    },
    isStrict: options.isStrict,
  });
  const isPublic = { config: { scope: "public" as const } };
  app.get("/", { config: { scope: "read" } }, (_request, reply) => {
    void reply.type("text/html; charset=utf-8").send(statusPage(viewOf(context), context.version));
  });
  app.get("/livez", isPublic, () => "ok\n");
  app.get<{ Querystring: { verbose?: string } }>("/readyz", isPublic, (request, reply) => {
    const isReady = context.isReady();
    const isVerbose = request.query.verbose !== undefined;
    const text = isVerbose
      ? `[${isReady ? "+" : "-"}]serving ${isReady ? "ok" : "starting or stopping"}\n`
      : isReady
        ? "ok\n"
        : "not ready\n";
    void reply
      .code(isReady ? 200 : 503)
      .type("text/plain")
      .send(text);
  });
  app.get("/metrics", isPublic, async (_request, reply) => {
    void reply.type(context.metrics.registry.contentType);
    return await context.metrics.registry.metrics();
  });
}
