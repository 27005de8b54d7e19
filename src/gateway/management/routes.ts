import type { FastifyInstance, FastifyReply } from "fastify";
import { ApiError } from "../../api/errors.ts";
import type { PublishedOperator } from "../../api/status.ts";
import { tailLogs } from "../../runtimes/logs.ts";
import type { ImageCache } from "../images/cache.ts";
import type { KnownSlot, ResolutionIndex } from "../index.ts";
import { slotsInOrder } from "../index.ts";
import type { GatewayMetrics } from "../metrics.ts";
import { statusPage } from "./page.ts";
import { isOperatorLost } from "../admission/availability.ts";
import type { Admission } from "../admission/admission.ts";
import type { Traffic } from "../traffic.ts";
import { modelView, planView, slotDetail, slotView, v1Models, type ViewContext } from "./views.ts";

export interface RouteContext {
  readonly index: () => ResolutionIndex;
  readonly operator: () => PublishedOperator | undefined;
  readonly traffic: Traffic;
  readonly admission: Admission;
  readonly metrics: GatewayMetrics;
  readonly images: ImageCache;
  readonly stateDir: string;
  readonly version: string;
  readonly startedAt: number;
  readonly isReady: () => boolean;
}

interface NameParams {
  Params: { name: string };
}
interface RestParams {
  Params: { "*": string };
}

/** Everything but the hot `/v1` routes. Reads only: changing things over the API comes with authentication. */
export function registerRoutes(app: FastifyInstance, context: RouteContext): void {
  const view = (): ViewContext => ({
    index: context.index(),
    traffic: context.traffic,
    admission: context.admission,
    isOperatorLost: isOperatorLost(context.operator()),
  });
  const slotNamed = (name: string): KnownSlot => {
    const slot = context.index().slots.get(name);
    if (slot === undefined)
      throw new ApiError("slot.not_found", { message: `no slot is called "${name.slice(0, 64)}"` });
    return slot;
  };
  const isPublic = { config: { scope: "public" as const } };
  const isRead = { config: { scope: "read" as const } };
  const isAdmin = { config: { scope: "admin" as const } };

  app.get("/", isRead, (_request, reply) => {
    void reply.type("text/html; charset=utf-8").send(statusPage(view(), context.version));
  });
  app.get("/livez", isPublic, () => "ok\n");
  app.get<{ Querystring: { verbose?: string } }>("/readyz", isPublic, (request, reply) => {
    const isReady = context.isReady();
    const text =
      request.query.verbose === undefined
        ? isReady
          ? "ok\n"
          : "not ready\n"
        : `[${isReady ? "+" : "-"}]serving ${isReady ? "ok" : "starting or stopping"}\n`;
    void reply
      .code(isReady ? 200 : 503)
      .type("text/plain")
      .send(text);
  });
  for (const path of ["/metrics", "/api/metrics"]) {
    app.get(path, isPublic, async (_request, reply) => {
      void reply.type(context.metrics.registry.contentType);
      return await context.metrics.registry.metrics();
    });
  }

  app.get("/v1/models", isPublic, () => ({ object: "list", data: v1Models(view()) }));
  app.get<RestParams>("/v1/models/*", { config: { scope: "v1" } }, (request) => {
    const id = request.params["*"];
    const found = v1Models(view()).find((item) => item["id"] === id);
    if (found === undefined)
      throw new ApiError("model.not_found", { message: `no model is called "${id.slice(0, 200)}"` });
    return found;
  });

  app.get<NameParams>("/api/images/cache/:name", { config: { scope: "v1" } }, async (request, reply) => {
    const image = await context.images.open(request.params.name);
    if (image === undefined) throw new ApiError("system.not_found", { message: "there is no such image any more" });
    return await reply
      .type("image/png")
      .header("content-length", image.sizeBytes)
      .header("cache-control", "private, max-age=86400, immutable")
      .send(image.file.createReadStream());
  });

  app.get("/api/slots", isRead, () => {
    const shown = view();
    return { object: "list", data: slotsInOrder(shown.index).map((slot) => slotView(slot, shown)) };
  });
  app.get<NameParams>("/api/slots/:name", isRead, (request) => slotDetail(slotNamed(request.params.name), view()));
  app.get<NameParams>("/api/slots/:name/plan", isRead, (request) => planView(slotNamed(request.params.name)));
  app.get<NameParams & { Querystring: { tail?: string; follow?: string } }>(
    "/api/slots/:name/logs",
    isAdmin,
    async (request, reply) => {
      const { name } = slotNamed(request.params.name);
      const tail = Number(request.query.tail ?? 200);
      if (!Number.isInteger(tail) || tail < 1 || tail > 5000) {
        throw new ApiError("dispatch.invalid_request", {
          message: "tail must be a whole number from 1 to 5000",
          details: { path: ["tail"] },
        });
      }
      if (request.query.follow === "1") return await followLogs(reply, context.stateDir, name, tail);
      const lines: string[] = [];
      for await (const { line } of tailLogs(context.stateDir, name, { tail, follow: false })) lines.push(line);
      return await reply.type("text/plain; charset=utf-8").send(lines.length === 0 ? "" : `${lines.join("\n")}\n`);
    },
  );

  app.get("/api/models", isRead, () => {
    const { index } = view();
    return { object: "list", data: [...index.models.values()].map((model) => modelView(model, index)) };
  });
  app.get<RestParams>("/api/models/*", isRead, (request) => {
    const { index } = view();
    const model = index.models.get(request.params["*"]);
    if (model === undefined)
      throw new ApiError("model.not_found", { message: `no model is called "${request.params["*"].slice(0, 200)}"` });
    return modelView(model, index);
  });

  app.get("/api/status", isPublic, () => {
    const shown = view();
    const slots = slotsInOrder(shown.index).map((slot) => ({ name: slot.name, state: shown.traffic.stateOf(slot) }));
    const counts: Record<string, number> = {};
    for (const { state } of slots) counts[state] = (counts[state] ?? 0) + 1;
    const uptime = Math.floor((Date.now() - context.startedAt) / 1000);
    return { name: "berth", version: context.version, uptime_seconds: uptime, ready: context.isReady(), slots, counts };
  });
  app.get("/api/health/system", isPublic, () => {
    const operator = context.operator();
    const slots = slotsInOrder(context.index());
    const failed = slots.filter(({ status }) => status?.state === "error").map(({ name }) => name);
    const problems = operator?.problems.map(({ reason }) => reason) ?? [];
    const checks = {
      store: problems.length === 0 ? { status: "ok" } : { status: "degraded", reasons: problems },
      operator_heartbeat: { status: isOperatorLost(operator) ? "degraded" : "ok", last: operator?.heartbeat ?? null },
      slots: { status: failed.length === 0 ? "ok" : "degraded", failed },
    };
    const isOk = Object.values(checks).every(({ status }) => status === "ok");
    return { status: isOk ? "ok" : "degraded", checks };
  });
  app.get("/api/features", isPublic, () => ({
    auth: true,
    containers: false,
    held_requests: true,
    management_writes: false,
    upstreams: true,
  }));
  app.get("/api/config/urls", isPublic, (request) => {
    const base = `${request.protocol}://${request.host}`;
    return { api: `${base}/v1`, dashboard: `${base}/`, chat: null };
  });
}

async function followLogs(reply: FastifyReply, stateDir: string, slot: string, tail: number): Promise<FastifyReply> {
  reply.hijack();
  const { raw } = reply;
  const left = new AbortController();
  raw.once("close", () => left.abort());
  raw.writeHead(200, {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
    "x-request-id": reply.request.id,
  });
  raw.flushHeaders();
  for await (const { time, stream, line } of tailLogs(stateDir, slot, { tail, follow: true, signal: left.signal })) {
    const isTaken = raw.write(`data: ${JSON.stringify({ time: time.toISOString(), stream, line })}\n\n`);
    if (!isTaken && !left.signal.aborted)
      await new Promise<void>((resolve) => {
        raw.once("drain", resolve);
        raw.once("close", resolve);
      });
  }
  raw.end();
  return reply;
}
