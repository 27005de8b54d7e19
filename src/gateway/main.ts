import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Logger } from "pino";
import type { CatalogEntry } from "../api/catalog.ts";
import type { Config, ConfigOrigin } from "../api/config.ts";
import type { GatewayRole } from "../api/gateway-report.ts";
import { localUrl } from "../lib/listen-address.ts";
import { secretPlaces } from "../lib/secret-file.ts";
import { steadyNow } from "../lib/steady-clock.ts";
import { openStore } from "../store/open.ts";
import { AccessLog } from "./telemetry/access-log.ts";
import { Admission } from "./slots/admission.ts";
import { isSlotDraining } from "./slots/availability.ts";
import { BufferBudget } from "./slots/budget.ts";
import { buildApp } from "./app.ts";
import { ConversationThread } from "./conversations/thread.ts";
import { Gate } from "./auth/gate.ts";
import { connectionLimits, ConnectionLimiter, limitText, openFileLimit } from "./http/connection-limit.ts";
import type { GuardedRoute } from "./auth/hook.ts";
import { refusalCounter } from "./auth/metrics.ts";
import { reachLines } from "./auth/reach.ts";
import { EngineCaches } from "./telemetry/engine-cache.ts";
import { exportConditions } from "./telemetry/condition-metrics.ts";
import { DemandPublisher } from "./slots/demand.ts";
import { Cors } from "./http/cors.ts";
import { ModelProxy, stopping } from "./proxy/handle.ts";
import { drain } from "./drain.ts";
import { CacheSync, LiveIndex } from "./routing/cache-sync.ts";
import { Listeners, portOf, sharingOf } from "./http/listeners.ts";
import { ChatAddress, listenForChat } from "./http/chat-address.ts";
import { Lifetime } from "./lifetime.ts";
import { HostGuard } from "./http/hosts.ts";
import { Drawings } from "./media/images/drawings.ts";
import { ImageCache } from "./media/images/cache.ts";
import { defaultAgainAfterMs } from "./proxy/slot-dispatch.ts";
import type { ResolutionIndex } from "./routing/index.ts";
import { KeptItems, keptItems } from "./protocols/kept-items.ts";
import { GatewayMetrics } from "./telemetry/metrics.ts";
import { defaultCommentTimes, type CommentTimes } from "./proxy/wait-comments.ts";
import { openTraces } from "./telemetry/open-traces.ts";
import { RecentRequests } from "./telemetry/recent-requests.ts";
import { TrafficHistory } from "./telemetry/traffic-history.ts";
import { MachineReadings, type ReadMachine } from "./management/machine-readings.ts";
import { ResourceIndex } from "./management/resource-index.ts";
import { Traffic } from "./slots/traffic.ts";
import { openEnginePages } from "./open-engine-pages.ts";
import { UpstreamMetrics } from "./providers/metrics.ts";
import { Upstreams } from "./providers/upstreams.ts";
import { v1Routes, v1Shapes } from "./v1/routes.ts";

export interface RunningGateway {
  readonly port: number;
  readonly url: string;
  /** Every route, with its scope class. */
  readonly routes: readonly GuardedRoute[];
  /** The revision of a slot's published state that requests are resolved against. */
  seenRevision(slot: string): number | undefined;
  /** Closes the port, so that another gateway can listen; connections stay. */
  release(): Promise<void>;
  /** Is not ready at once. Open requests get `drainSeconds`, or until `endNow`; the rest get an error, and all is closed. */
  close(options: { drainSeconds: number; endNow?: AbortSignal }): Promise<void>;
}

export interface GatewayOptions {
  readonly log: Logger;
  /** A standby listens beside the gateway of the same state directory; absent: this is no standby. */
  readonly role?: GatewayRole;
  /** The log of requests, a line each; absent: none is written. */
  readonly accessLog?: Logger;
  readonly version: string;
  /** The source of each setting; absent: not known. */
  readonly configOrigins?: Readonly<Record<string, ConfigOrigin>>;
  /** Holds providers' keys; absent: that of this process. */
  readonly env?: NodeJS.ProcessEnv;
  /** The curated models, read when they are asked for; absent: none. */
  readonly catalog?: () => Promise<readonly CatalogEntry[]>;
  /** Reads how busy the machine of the engines is; absent: this process cannot know. */
  readonly readMachine?: ReadMachine;
  /** The directory of the built pages; absent: no page is served. */
  readonly pages?: string;
  /** In tests: an answer of `/api` that violates its schema is an error. */
  readonly isStrict?: boolean;
  /** The times of comments for a client that waits for a stream; shorter in tests. */
  readonly commentTimes?: CommentTimes;
  /** Before each further attempt of a request whose connection was refused; longer in tests. */
  readonly againAfterMs?: readonly number[];
}

/** Runs the gateway until closed. Needs no operator: it serves the published state, and reports a missing one. */
export async function runGateway(config: Config, options: GatewayOptions): Promise<RunningGateway> {
  const { log, version, commentTimes, againAfterMs, env = process.env } = options;
  await using stack = new AsyncDisposableStack();
  const gateway = `gateway-${process.pid}-${randomBytes(4).toString("hex")}`;
  const store = stack.use(
    await openStore(config).forGateway({
      gateway,
      onWarning: (line) => log.warn(line),
      onUnknown: (what) =>
        log.warn(`another version of the operator has published a value that this version does not know: ${what}`),
      onDiscoveredError: (error) => log.warn({ err: error }, "a provider's list of models could not be kept"),
    }),
  );
  // In a cluster, other gateways have conversations of the same owners.
  const conversations = stack.use(new ConversationThread(config.stateDir, { hasAll: config.store === "files" }));
  const traces = stack.use(await openTraces(config, { version, instance: gateway, log }));
  const { published, openUpstreams, discovered, tokens } = store;
  // No await from here to the last of the following statements: providers answer and operators publish at any time.
  const budget = new BufferBudget(config.bufferLimit);
  const upstreams = stack.use(
    new Upstreams({
      env,
      readSecret: store.readSecret,
      places: secretPlaces(config),
      isOpen: (upstream, baseUrl) => !config.apiExec && openUpstreams.has(upstream, baseUrl),
      discovered,
      onProblem: (upstream, message) => log.warn({ upstream }, `upstream ${upstream}: ${message}`),
      onOutcome: (upstream, outcome, seconds) => upstreamMetrics.outcome(upstream, outcome, seconds),
      onRetry: (upstream) => upstreamMetrics.retry(upstream),
    }),
  );
  const live = stack.use(new LiveIndex(published, upstreams));
  const index = (): ResolutionIndex => live.current;
  const traffic = new Traffic((slot) => onEdge(slot), store.others);
  const admission = new Admission({
    index,
    operator: () => published.operatorLiveness(),
    isSettled: () => published.operator()?.isSettled !== false,
    holdMs: config.holdSeconds * 1000,
    onDrained: () => demand.publish(),
    onWanted: () => demand.publish(),
  });
  const demand = stack.use(
    new DemandPublisher({
      writer: store.demand,
      traffic,
      admission,
      index,
      onFailing: (error) => log.error({ err: error }, "demand cannot be published: no cold slot is loaded"),
      onEnd: () => log.info("demand is published again"),
    }),
  );
  function onEdge(slot: string): void {
    const status = index().slots.get(slot)?.status;
    // Whether the loaded model is idle decides when another one is loaded.
    const isContended = status?.onRequest !== undefined && admission.isWanted(slot);
    // The operator waits for the confirmation of these; a ready slot can wait for the next heartbeat.
    if (status?.state !== "ready" || isContended) demand.publish();
  }
  stack.use(
    published.watch(({ slots, registry, operator }) => {
      if (registry || operator) admission.refresh();
      else for (const slot of slots) admission.refresh(slot);
      cacheSync.refresh();
      if (slots.some((slot) => isSlotDraining(index().slots.get(slot)))) demand.publish();
    }),
  );
  stack.defer(() => admission.close(stopping()));
  const cacheSync = new CacheSync({
    index,
    inFlight: (slot) => traffic.inFlight(slot),
    published,
    holdMs: config.holdSeconds * 1000,
  });
  // A provider's list may contain the model that a request waits for: without an operator's heartbeat nothing else
  // would wake the request.
  stack.use(upstreams.watch(() => cacheSync.refresh()));
  const metrics = new GatewayMetrics({ traffic, admission, index, upstreams, unresolved: () => cacheSync.waiting });
  metrics.onEngines(stack.use(new EngineCaches(index, admission)));
  const upstreamMetrics = new UpstreamMetrics(metrics.page, () => upstreams.views());
  const isOperatorLost = (): boolean => published.operatorLiveness() !== "live";
  const resources = new ResourceIndex({ index, upstreams, isOperatorLost });
  exportConditions(metrics.page, () => resources.all());
  const lifetime = new Lifetime(() => upstreams.hasTried);
  const deadline = new AbortController();
  const startedAt = Date.now();
  const isReady = (): boolean => lifetime.isReady;
  const cors = new Cors(config.corsOrigins);
  const gate = new Gate({
    guard: new HostGuard([config.hostname, ...config.allowedHosts], cors),
    isEnabled: config.authEnabled,
    verify: (token) => tokens.verify(token),
    isUnconfirmed: (token) => tokens.isUnconfirmed(token),
    trustedProxies: config.trustedProxies,
    onRefused: refusalCounter(metrics.page),
    onThrottled: (peer) => log.warn(`${peer} failed to authenticate too often and gets 429 for a minute`),
  });
  const recent = new RecentRequests({ keepsBodies: config.requestBodies });
  const history = stack.use(new TrafficHistory({ metrics, traffic, admission, recent }));
  const accessLog = new AccessLog({ log, lines: options.accessLog, part: config.accessLogPart });
  const proxy = new ModelProxy({
    index,
    cacheSync,
    admission,
    upstreams,
    traffic,
    budget,
    metrics,
    log: accessLog,
    traces,
    recent,
    bodyLimitBytes: config.bodyLimit,
    commentTimes: commentTimes ?? defaultCommentTimes,
    againAfterMs: againAfterMs ?? defaultAgainAfterMs,
    isDraining: () => lifetime.isDraining,
    identify: (request) => gate.principalOf(request),
  });
  metrics.onGateway(proxy, { drainEndsAt: () => lifetime.drainEndsAt, isOperatorLive: () => !isOperatorLost() });
  const images = new ImageCache(join(config.stateDir, "images"));
  const drawings = new Drawings((slot) => admission.acquireUnqueued(slot, ""));
  const kept = stack.use(new KeptItems({ budget, ...keptItems(config.bufferLimit) }));
  const spooled = new BufferBudget(config.spoolLimit, "SVC_SPOOL_LIMIT");
  const v1 = v1Routes({ stateDir: config.stateDir, basePath: config.basePath, spooled, images, drawings, kept });
  const files = openFileLimit();
  const limits = files === undefined ? undefined : connectionLimits(files);
  const chat = new ChatAddress();
  const app = await buildApp({
    proxy,
    cors,
    connections: new ConnectionLimiter(limits),
    bodyLimitBytes: config.bodyLimit,
    budget,
    v1Routes: v1,
    log,
    gate,
    chat,
    pages: options.pages,
    isStrict: options.isStrict === true,
    management: {
      index,
      refreshModels: () => published.refreshRegistry(),
      operator: () => published.operator(),
      operatorLiveness: () => published.operatorLiveness(),
      traffic,
      admission,
      metrics,
      recent,
      history,
      images,
      drawings,
      upstreams,
      resources,
      requests: store.requests,
      hardware: store.hardware,
      readings: options.readMachine && new MachineReadings(options.readMachine),
      groups: store.groups,
      pullRequests: store.pullRequests,
      pulls: store.pulls,
      modelTasks: store.modelTasks,
      modelAnswers: store.modelAnswers,
      openUpstreams,
      writer: store.writer,
      gate,
      tokens,
      conversations,
      log,
      config,
      configOrigins: options.configOrigins ?? {},
      catalog: options.catalog ?? (async () => []),
      version,
      v1: v1Shapes(v1),
      startedAt,
      isReady,
      stopping: deadline.signal,
      watch: (onChange) => published.watch(onChange),
    },
  });
  // Everything that may fail comes before: an open port is not closed with the rest.
  await store.noteAuthMode(config.authEnabled);
  const known = await tokens.list();
  const tokenCounts = { all: known.length, unconfirmed: known.filter((each) => !each.is_confirmed).length };
  const listeners = new Listeners(app.server, sharingOf(config, { role: options.role, version, isReady }));
  await listeners.listen(config, (how) => app.fastify.listen(how));
  if (options.pages !== undefined) await listenForChat(config, listeners, chat, log);
  stack.use(
    await openEnginePages(config, { index, admission, published, gate, traffic, listeners, metrics, accessLog, log }),
  );
  listeners.opened();
  const port = portOf(app.server) ?? config.port;
  const url = localUrl(config.host, port);
  log.info(`gateway listens on ${url}`);
  if (files !== undefined && limits !== undefined) log[files < 1024 ? "warn" : "info"](limitText(files, limits));
  for (const { level, text } of reachLines(config, port, tokenCounts)) log[level](text);
  const owned = stack.move();
  return {
    port,
    url,
    routes: app.routes,
    seenRevision: (slot) => index().slots.get(slot)?.revision,
    release: () => listeners.release(),
    async close({ drainSeconds, endNow }) {
      const isRelieved = (lifetime.isRelieved = listeners.isRelieved());
      lifetime.drainEndsAt = steadyNow() + drainSeconds * 1000;
      if (isRelieved) log.info("the other gateway takes the requests; open ones end here");
      await drain({ proxy, cacheSync, app, listeners, deadline, log }, { drainSeconds, endNow, isRelieved });
      await owned.disposeAsync();
    },
  };
}
