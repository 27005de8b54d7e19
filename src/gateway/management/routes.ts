import type { FastifyInstance } from "fastify";
import { apiRoutes } from "../../api/management/routes.ts";
import { adminHandlers } from "./admin-handlers.ts";
import { serveApi } from "./api-server.ts";
import { viewOf, type ManagementContext } from "./context.ts";
import { eventHandlers } from "./event-handlers.ts";
import { hardwareHandlers } from "./hardware-handlers.ts";
import { modelHandlers } from "./model-handlers.ts";
import { statusPage } from "./page.ts";
import { slotHandlers } from "./slot-handlers.ts";
import { health, systemHandlers } from "./system-handlers.ts";

/**
 * One check a line, as Kubernetes writes them; those of the whole system are for whoever reads it, and count for
 * nothing.
 */
async function readyText(context: ManagementContext, isReady: boolean): Promise<string> {
  const { checks } = await health(context);
  const others = Object.entries(checks).map(([name, { status }]) => {
    const isOk = status === "ok";
    return `[${isOk ? "+" : "-"}]${name} ${isOk ? "ok" : "degraded (requests are served all the same)"}\n`;
  });
  return [`[${isReady ? "+" : "-"}]serving ${isReady ? "ok" : "starting or stopping"}\n`, ...others].join("");
}

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
      ...hardwareHandlers(context),
      events: events.events,
    },
    isStrict: options.isStrict,
  });
  const isPublic = { config: { scope: "public" as const } };
  app.get("/", { config: { scope: "read" } }, (_request, reply) => {
    void reply.type("text/html; charset=utf-8").send(statusPage(viewOf(context), context.version));
  });
  app.get<{ Querystring: { verbose?: string } }>("/livez", isPublic, (request, reply) => {
    // Whoever gets an answer has seen the one thing that this is about: the event loop turns.
    void reply
      .type("text/plain")
      .send(request.query.verbose === undefined ? "ok\n" : "[+]process ok\n[+]event loop ok\n");
  });
  app.get<{ Querystring: { verbose?: string } }>("/readyz", isPublic, async (request, reply) => {
    const isReady = context.isReady();
    const text = request.query.verbose === undefined ? undefined : await readyText(context, isReady);
    return await reply
      .code(isReady ? 200 : 503)
      .type("text/plain")
      .send(text ?? (isReady ? "ok\n" : "not ready\n"));
  });
  app.get("/metrics", isPublic, async (_request, reply) => {
    void reply.type(context.metrics.registry.contentType);
    return await context.metrics.registry.metrics();
  });
}
