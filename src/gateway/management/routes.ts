import type { FastifyInstance } from "fastify";
import { apiRoutes } from "../../api/management/routes.ts";
import { adminHandlers } from "./admin-handlers.ts";
import { serveApi } from "./api-server.ts";
import type { ManagementContext } from "./context.ts";
import { chatHandlers } from "./chat-handlers.ts";
import { eventHandlers } from "./event-handlers.ts";
import { groupHandlers } from "./group-handlers.ts";
import { hardwareHandlers } from "./hardware-handlers.ts";
import { modelHandlers } from "./model-handlers.ts";
import { modelFileHandlers } from "./model-file-handlers.ts";
import { pullHandlers } from "./pull-handlers.ts";
import { routerHandlers } from "./router-handlers.ts";
import { requestHandlers } from "./request-handlers.ts";
import { slotHandlers } from "./slot-handlers.ts";
import { health, systemHandlers } from "./system-handlers.ts";

/**
 * One check a line, as Kubernetes writes them; the checks of the whole system are for information, and do not change
 * the status.
 */
async function readyText(context: ManagementContext, isReady: boolean): Promise<string> {
  const { checks } = await health(context);
  const others = Object.entries(checks).map(([name, { status }]) => {
    const isOk = status === "ok";
    return `[${isOk ? "+" : "-"}]${name} ${isOk ? "ok" : "degraded (requests are served all the same)"}\n`;
  });
  return [`[${isReady ? "+" : "-"}]serving ${isReady ? "ok" : "starting or stopping"}\n`, ...others].join("");
}

/** Everything but the `/v1` routes that reach an engine. In tests every answer is checked against its schema. */
export function registerRoutes(app: FastifyInstance, context: ManagementContext, options: { isStrict: boolean }): void {
  const events = eventHandlers(context);
  app.addHook("onClose", () => events[Symbol.dispose]());
  serveApi(app, {
    routes: apiRoutes,
    handlers: {
      ...slotHandlers(context),
      ...modelHandlers(context),
      ...modelFileHandlers(context),
      ...pullHandlers(context),
      ...groupHandlers(context),
      ...adminHandlers(context),
      ...systemHandlers(context),
      ...requestHandlers(context),
      ...hardwareHandlers(context),
      ...routerHandlers(context),
      ...chatHandlers(context),
      events: events.events,
    },
    isStrict: options.isStrict,
  });
  const isPublic = { config: { scope: "public" as const } };
  app.get<{ Querystring: { verbose?: string } }>("/livez", isPublic, (request, reply) => {
    // The answer itself proves the only check of this route: the event loop runs.
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
  // As llama-server has it, for programs that ask an engine whether it can be used.
  app.get("/health", isPublic, async (_request, reply) => {
    const isReady = context.isReady();
    return await reply.code(isReady ? 200 : 503).send({ status: isReady ? "ok" : "loading" });
  });
  app.get("/metrics", isPublic, async (request, reply) => {
    const { type, body } = await context.metrics.page.render(request.headers.accept);
    return await reply.type(type).send(body);
  });
}
