import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Config } from "../api/config.ts";
import { ApiError } from "../api/errors.ts";
import { gatewayMetrics as families } from "../api/metrics/gateway.ts";
import { localUrl } from "../lib/listen-address.ts";
import type { OperatorLiveness } from "../store/store.ts";
import type { Admission } from "./slots/admission.ts";
import { availabilityOf } from "./slots/availability.ts";
import type { UnqueuedLease } from "./slots/backend.ts";
import type { Gate } from "./auth/gate.ts";
import type { Traffic } from "./slots/traffic.ts";
import type { Listeners } from "./http/listeners.ts";
import { EnginePages } from "./pages/engine-pages.ts";
import { pagePath, type PageEngine } from "./pages/engine-headers.ts";
import type { KnownSlot, ResolutionIndex } from "./routing/index.ts";
import type { AccessLog } from "./telemetry/access-log.ts";
import type { GatewayMetrics } from "./telemetry/metrics.ts";
import { RequestRecord } from "./telemetry/request-record.ts";
import { noSlot } from "./telemetry/slot-metrics.ts";

interface EnginePagesDependencies {
  readonly index: () => ResolutionIndex;
  readonly admission: Pick<Admission, "acquireUnqueued">;
  readonly published: { operatorLiveness(): OperatorLiveness };
  readonly gate: Gate;
  readonly traffic: Traffic;
  readonly listeners: Pick<Listeners, "with">;
  readonly metrics: Pick<GatewayMetrics, "page">;
  readonly accessLog: AccessLog;
  readonly log: Logger;
}

/** Listens for engines' pages where SVC_ENGINE_PAGES names slots. Resolves with undefined where none are, or none can be. */
export async function openEnginePages(
  config: Config,
  { index, admission, published, gate, traffic, listeners, metrics, accessLog, log }: EnginePagesDependencies,
): Promise<EnginePages | undefined> {
  const { enginePages: slots, enginePagesPort: port, host, bodyLimit: bodyLimitBytes } = config;
  if (slots.length === 0) return undefined;
  const requests = metrics.page.values(families.enginePageRequests);
  const pages = new EnginePages({
    slots,
    bodyLimitBytes,
    admit: (request) => {
      takePassword(request);
      // An engine's own interface changes the engine, and shows other callers' prompts.
      gate.admit(request, "admin", "page");
    },
    mayStill: (request) => gate.mayStill(request, "admin"),
    engineOf: (slot, request) => {
      const lease = admission.acquireUnqueued(slot, clientOf(request));
      const known = index().slots.get(slot);
      if (lease !== undefined && known !== undefined) return { engine: engineOf(lease, known), lease };
      lease?.[Symbol.dispose]();
      throw noEngine(slot, known, published.operatorLiveness());
    },
    begin: (slot) => {
      traffic.begin(slot);
      return () => traffic.end(slot);
    },
    onEnd: ({ slot = noSlot, ...ended }) => {
      requests.add({ slot, code: String(ended.code) });
      accessLog.closed({ ...ended, endedAt: Date.now(), slot, path: "/upstream", record: new RequestRecord() });
    },
  });
  metrics.page.read(families.enginePageSockets, () =>
    slots.map((slot) => [`slot="${slot}"`, pages.openSockets(slot)] as const),
  );
  const failure = await listeners.with(pages.server, { host, port });
  if (failure === undefined) {
    pages.server.on("error", (error) => log.warn({ err: error }, "an engine's page was not served"));
    log.info(`the pages of the engines of ${slots.join(", ")} are at ${localUrl(host, port)}/upstream/SLOT/`);
    return pages;
  }
  await pages[Symbol.asyncDispose]();
  log.warn(`${failure.message}: no engine's page is served; SVC_ENGINE_PAGES_PORT names another port`);
  return undefined;
}

/** `/upstream/SLOT/` of the API leads to the port of engines' pages, where SVC_ENGINE_PAGES names slots. */
export function leadToEnginePages(
  app: FastifyInstance,
  { enginePages, enginePagesPort }: Pick<Config, "enginePages" | "enginePagesPort">,
): void {
  if (enginePages.length === 0) return;
  for (const url of ["/upstream/:slot", "/upstream/:slot/*"])
    app.get<{ Params: { slot: string } }>(url, { config: { scope: "public" } }, async (request, reply) => {
      const { slot } = request.params;
      const host = hostOf(request);
      if (!enginePages.includes(slot) || host === undefined)
        throw new ApiError("system.not_found", { message: "SVC_ENGINE_PAGES does not name this slot" });
      const rest = request.url.replace(/^\/upstream\/[^/?]+\/?/, "");
      return await reply.redirect(`http://${host}:${enginePagesPort}${pagePath(slot)}${rest}`, 307);
    });
}

/** The name by which the browser knows this machine, without the port. */
function hostOf({ headers }: FastifyRequest): string | undefined {
  return URL.parse(`http://${headers.host ?? ""}`)?.hostname;
}

/** A browser sends a token as a password. */
function takePassword({ headers }: IncomingMessage): void {
  const given = /^basic +([a-z0-9+/]+=*)$/i.exec(headers.authorization ?? "")?.[1];
  if (given === undefined) return;
  const text = Buffer.from(given, "base64").toString();
  headers.authorization = `Bearer ${text.slice(text.indexOf(":") + 1)}`;
}

/** One browser. Behind a proxy several may count as one, which then have one replica. */
function clientOf({ socket, headers }: IncomingMessage): string {
  return `${socket.remoteAddress ?? ""} ${headers["user-agent"] ?? ""} ${headers.authorization ?? ""}`;
}

function engineOf({ backend }: UnqueuedLease, { spec }: KnownSlot): PageEngine {
  const { firstByte, idle } = spec.timeoutSeconds;
  const { host, port, bearer } = backend.endpoint;
  const seconds = firstByte === 0 || idle === 0 ? 0 : Math.max(firstByte, idle);
  return { host, port, bearer, timeoutMs: seconds * 1000 };
}

/** No engine of the slot is loaded. A page loads none: a forgotten tab would keep it loaded. */
function noEngine(name: string, slot: KnownSlot | undefined, operator: OperatorLiveness): ApiError {
  if (slot === undefined) return new ApiError("slot.not_found", { message: `no slot is called ${name}` });
  const availability = availabilityOf(slot, "main", { operator, now: Date.now() });
  const { code, message, headers } =
    availability.kind === "open" ? new ApiError("slot.not_ready") : availability.failure;
  return new ApiError(code, {
    message: `Slot ${name} has no engine now: ${message}. Load it on its page of the dashboard or with berth slot load ${name}, then reload this page.`,
    headers,
  });
}
