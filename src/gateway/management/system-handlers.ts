import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { freeBytesMin } from "../../api/hardware.ts";
import type { Health } from "../../api/management/health-view.ts";
import { openApiDocument } from "../../api/management/openapi.ts";
import { isNoModel } from "../../api/model.ts";
import type { SlotState } from "../../api/states.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { slotsInOrder } from "../routing/index.ts";
import type { Handlers } from "./api-server.ts";
import { viewOf, type ManagementContext } from "./context.ts";
import { EngineMetrics } from "./engine-metrics.ts";
import { secondsSince } from "./views.ts";
import { existsSync } from "node:fs";

type SystemHandlers = Pick<
  Handlers,
  | "status"
  | "health"
  | "metrics"
  | "engineMetrics"
  | "targets"
  | "features"
  | "installState"
  | "completeInstall"
  | "urls"
  | "openapi"
>;

/** Handlers of health, features, installation and the API's own description. */
export function systemHandlers(context: ManagementContext): SystemHandlers {
  const { config, version, startedAt } = context;
  const engines = new EngineMetrics(context.index);
  const installMark = join(config.stateDir, "installed");
  const installState = (): { first_run: boolean; has_models: boolean; has_ready_slot: boolean } => {
    const { index, traffic } = viewOf(context);
    const states = slotsInOrder(index).map((slot) => traffic.stateOf(slot));
    return {
      first_run: !existsSync(installMark),
      has_models: [...index.models.values()].some((model) => !isNoModel(model)),
      has_ready_slot: states.some((state) => state === "ready" || state === "serving" || state === "idle"),
    };
  };
  return {
    status: () => {
      const { index, traffic } = viewOf(context);
      const slots = slotsInOrder(index).map((slot) => ({ name: slot.name, state: traffic.stateOf(slot) }));
      const counts: Partial<Record<SlotState, number>> = {};
      for (const { state } of slots) counts[state] = (counts[state] ?? 0) + 1;
      const uptime_seconds = secondsSince(startedAt);
      return { name: "berth", version, uptime_seconds, ready: context.isReady(), slots, counts };
    },
    health: async () => await health(context),
    metrics: async ({ request, reply }) => {
      const { type, body } = await context.metrics.page.render(request.headers.accept);
      return await reply.type(type).send(body);
    },
    engineMetrics: async ({ reply }) =>
      await reply.type("text/plain; version=0.0.4; charset=utf-8").send(await engines.page()),
    targets: ({ request }) => {
      const gateway = { targets: [request.host], labels: { part: "gateway" } };
      const operator = { targets: [`127.0.0.1:${config.operatorPort}`], labels: { part: "operator" } };
      return /^(127\.|localhost|\[::1\])/.test(request.host) ? [gateway, operator] : [gateway];
    },
    features: () => ({
      auth: true,
      catalog: true,
      containers: true,
      events: true,
      hardware_probe: true,
      held_requests: true,
      management_writes: true,
      pulls: true,
      upstreams: true,
      dashboard: true,
      chat: true,
    }),
    installState,
    completeInstall: async () => {
      await writeFileAtomic(installMark, "", { fsync: false });
      return installState();
    },
    urls: ({ request }) => {
      // Only a trusted proxy's header says that it ends TLS; another sender must not redirect people to another scheme.
      const isSecure = request.headers["x-forwarded-proto"] === "https" && context.gate.isTrusted(request.raw);
      const base = `${isSecure ? "https" : request.protocol}://${request.host}${context.config.basePath}`;
      return { api: `${base}/v1`, dashboard: `${base}/`, chat: `${base}/chat/` };
    },
    openapi: () => openApiDocument(version, context.v1, config),
  };
}

/** An operator that has ended so often within ten minutes keeps ending. */
const keepsEnding = 3;

type ConditionCount = Health["checks"]["conditions"]["counts"][number];

/** The number of resources per condition. No names, places or messages: the route is public. */
function countUnhealthy({ resources }: ManagementContext): ConditionCount[] {
  const counts = new Map<string, ConditionCount>();
  for (const { kind, condition } of resources.unhealthy()) {
    const { type, reason } = condition;
    const key = `${kind} ${type} ${reason}`;
    const known = counts.get(key);
    if (known === undefined) counts.set(key, { kind, type, reason, count: 1 });
    else known.count += 1;
  }
  return [...counts.values()];
}

/** The checks of the whole system. */
export async function health(context: ManagementContext): Promise<Health> {
  const operator = context.operator();
  const failed = slotsInOrder(context.index())
    .filter(({ status }) => status?.state === "error")
    .map(({ name }) => name);
  const reasons = operator?.problems.map(({ reason }) => reason) ?? [];
  const free = await statfs(context.config.stateDir).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => null,
  );
  const counts = countUnhealthy(context);
  const ends = operator?.unexpectedEnds?.count ?? 0;
  const word = (isOk: boolean): "ok" | "degraded" => (isOk ? "ok" : "degraded");
  const checks = {
    store: { status: word(reasons.length === 0), reasons },
    operator_heartbeat: {
      status: word(context.operatorLiveness() === "live" && ends < keepsEnding),
      last: operator?.heartbeat ?? null,
      unexpected_ends: ends,
    },
    disk: { status: word(free !== null && free >= freeBytesMin), free_bytes: free },
    slots: { status: word(failed.length === 0), failed },
    conditions: { status: word(counts.length === 0), counts },
  };
  return { status: word(Object.values(checks).every(({ status }) => status === "ok")), checks };
}
