import { randomBytes } from "node:crypto";
import { Server as NetServer } from "node:net";
import { join } from "node:path";
import type { Logger } from "pino";
import type { Config, ConfigOrigin } from "../api/config.ts";
import { bootId } from "../lib/boot-id.ts";
import { openFileLimit } from "../lib/open-file-limit.ts";
import { localUrl } from "../lib/listen-address.ts";
import { steadyNow } from "../lib/steady-clock.ts";
import { openDemandWriter } from "../store/demand.ts";
import { DiscoveredStore } from "../store/discovered.ts";
import { openHardwareStore } from "../store/hardware.ts";
import { clearOddFiles } from "../store/odd-files.ts";
import { OpenUpstreams } from "../store/open-upstreams.ts";
import { openPublished } from "../store/published.ts";
import { openRequestStore } from "../store/requests.ts";
import { ManifestThread } from "../store/thread/manifest-thread.ts";
import { noteAuthMode } from "../store/token-confirmations.ts";
import { TokenStore } from "../store/tokens.ts";
import { AccessLog } from "./access-log.ts";
import { Admission } from "./admission/admission.ts";
import { isOperatorLost, noteBeat } from "./admission/availability.ts";
import { BufferBudget } from "./admission/budget.ts";
import { buildApp } from "./app.ts";
import { Authenticator } from "./auth/authenticator.ts";
import { Gate } from "./auth/gate.ts";
import { connectionLimits, ConnectionLimiter } from "./connection-limit.ts";
import type { GuardedRoute } from "./auth/hook.ts";
import { refusalCounter } from "./auth/metrics.ts";
import { reachLines } from "./auth/reach.ts";
import { exportConditions } from "./condition-metrics.ts";
import { DemandPublisher } from "./demand.ts";
import { Cors } from "./cors.ts";
import { Dispatcher, stopping } from "./dispatch.ts";
import { drain } from "./drain.ts";
import { FirstLook } from "./first-look.ts";
import { HostGuard } from "./hosts.ts";
import { Drawings } from "./images/drawings.ts";
import { ImageCache } from "./images/cache.ts";
import { defaultAgainAfterMs } from "./flight.ts";
import type { ResolutionIndex } from "./index.ts";
import { LiveIndex } from "./live-index.ts";
import { KeptItems, keptItems } from "./protocols/kept-items.ts";
import { GatewayMetrics } from "./metrics.ts";
import { defaultHoldTimes, type HoldTimes } from "./stream-hold.ts";
import { ResourceBook } from "./resource-book.ts";
import { Traffic } from "./traffic.ts";
import { UpstreamMetrics } from "./upstreams/metrics.ts";
import { Upstreams } from "./upstreams/upstreams.ts";
import { v1Routes, v1Shapes } from "./v1/routes.ts";

export interface RunningGateway {
  readonly port: number;
  readonly url: string;
  /** Every route, with who may call it. */
  readonly routes: readonly GuardedRoute[];
  /** The revision of a slot's published state that requests are resolved against. */
  seenRevision(slot: string): number | undefined;
  /** Listens no more, so that another gateway can; what is connected stays. */
  release(): void;
  /**
   * Unready at once, open requests get `drainSeconds`, or until `hurry` aborts; those that are left are told so, then
   * everything is closed.
   */
  close(options: { drainSeconds: number; hurry?: AbortSignal }): Promise<void>;
}

export interface GatewayOptions {
  readonly log: Logger;
  readonly version: string;
  /** Where each setting comes from; absent: not known. */
  readonly configOrigins?: Readonly<Record<string, ConfigOrigin>>;
  /** Tests: an answer of `/api` that its schema does not allow is an error. */
  readonly isStrict?: boolean;
  /** When a client that waits for a stream hears something; tests shorten it. */
  readonly holdTimes?: HoldTimes;
  /** Before each further try of a request whose connection was refused; tests are more patient. */
  readonly againAfterMs?: readonly number[];
}

const discoveryPatienceMs = 5000;

/** Runs the gateway until closed. Needs no operator: it serves what is published, and says so when nothing is. */
export async function runGateway(config: Config, options: GatewayOptions): Promise<RunningGateway> {
  const { log, version, holdTimes, againAfterMs } = options;
  await using stack = new AsyncDisposableStack();
  const gateway = `gateway-${process.pid}-${randomBytes(4).toString("hex")}`;
  await clearOddFiles(config.stateDir, (line) => log.warn(line));
  const writer = await openDemandWriter(config.stateDir, gateway);
  const published = stack.use(
    await openPublished(config.stateDir, {
      onUnknown: (what) =>
        log.warn(`another version of the operator has published what this one does not know: ${what}`),
    }),
  );
  const discovered = stack.use(
    await DiscoveredStore.open(config.stateDir, {
      onError: (error) => log.warn({ err: error }, "a provider's list of models could not be kept"),
    }),
  );
  // Nothing is awaited from here to the last of what follows these: providers answer and operators publish at any time.
  const budget = new BufferBudget(config.bufferLimit);
  const openUpstreams = new OpenUpstreams(config.stateDir);
  const upstreams = stack.use(
    new Upstreams({
      env: process.env,
      isOpen: (upstream, baseUrl) => !config.apiExec && openUpstreams.has(upstream, baseUrl),
      budget,
      discovered,
      onProblem: (upstream, message) => log.warn({ upstream }, `upstream ${upstream}: ${message}`),
      onOutcome: (upstream, outcome, seconds) => upstreamMetrics.outcome(upstream, outcome, seconds),
      onRetry: (upstream) => upstreamMetrics.retry(upstream),
    }),
  );
  const live = stack.use(new LiveIndex(published, upstreams));
  const index = (): ResolutionIndex => live.current;
  const traffic = new Traffic((slot) => onEdge(slot));
  const demand = stack.use(
    new DemandPublisher({
      gateway,
      writer,
      traffic,
      index,
      onFailing: (error) => log.error({ err: error }, "demand cannot be published: no cold slot is loaded"),
      onEnd: () => log.info("demand is published again"),
    }),
  );
  function onEdge(slot: string): void {
    const status = index().slots.get(slot)?.status;
    // The operator waits for these; whatever is warm can wait for the next heartbeat.
    const isWarm = status?.state === "ready";
    if (!isWarm) demand.publish();
  }
  let heard = published.operator();
  stack.use(
    published.watch(({ slots, registry, operator }) => {
      if (operator) {
        const before = heard;
        heard = published.operator();
        noteBeat(before, heard);
      }
      if (registry || operator) admission.refresh();
      else for (const slot of slots) admission.refresh(slot);
      firstLook.refresh();
      if (slots.some((slot) => index().slots.get(slot)?.status?.state === "unloading")) demand.publish();
    }),
  );
  const admission = new Admission({
    index,
    operator: () => published.operator(),
    bootId: bootId(),
    holdMs: config.holdSeconds * 1000,
  });
  stack.defer(() => admission.close(stopping()));
  const firstLook = new FirstLook({
    index,
    inFlight: (slot) => traffic.inFlight(slot),
    operator: () => published.operator(),
    bootId: bootId(),
    budget,
    holdMs: config.holdSeconds * 1000,
  });
  // What a provider lists may be what somebody waits for: where no operator beats, nothing else would wake them.
  stack.use(upstreams.watch(() => firstLook.refresh()));
  const metrics = new GatewayMetrics({ traffic, admission, index, newcomers: () => firstLook.waiting });
  const upstreamMetrics = new UpstreamMetrics(metrics.registry, () => upstreams.views());
  const resources = new ResourceBook({ index, upstreams, isOperatorLost: () => isOperatorLost(published.operator()) });
  exportConditions(metrics.registry, () => resources.all());
  let isDraining = false;
  const deadline = new AbortController();
  const startedAt = Date.now();
  const began = steadyNow();
  let isStarted = false;
  /** Not before upstreams have told of their models, so that nobody hears of one that there is none; for a while. */
  const isReady = (): boolean => {
    isStarted ||= upstreams.hasLooked || steadyNow() - began > discoveryPatienceMs;
    return isStarted && !isDraining;
  };
  const tokens = stack.use(new TokenStore(config.stateDir));
  const authenticator = new Authenticator({
    isEnabled: config.authEnabled,
    verify: (token) => tokens.verify(token),
    isUnconfirmed: (token) => tokens.isUnconfirmed(token),
    trustedProxies: config.trustedProxies,
    onRefused: refusalCounter(metrics.registry),
    onThrottled: (peer) => log.warn(`${peer} failed to authenticate too often and gets 429 for a minute`),
  });
  const cors = new Cors(config.corsOrigins);
  const gate = new Gate(new HostGuard([config.hostname, ...config.allowedHosts], cors), authenticator);
  const dispatcher = new Dispatcher({
    index,
    firstLook,
    admission,
    upstreams,
    traffic,
    budget,
    metrics,
    log: new AccessLog(log),
    bodyLimitBytes: config.bodyLimit,
    holdTimes: holdTimes ?? defaultHoldTimes,
    againAfterMs: againAfterMs ?? defaultAgainAfterMs,
    isDraining: () => isDraining,
    admit: (request) => gate.asker(request),
  });
  metrics.onSharedReaders(() => dispatcher.sharedReaders);
  stack.defer(() => dispatcher.close());
  const images = new ImageCache(join(config.stateDir, "images"));
  const drawings = new Drawings();
  const manifests = stack.use(new ManifestThread());
  const kept = stack.use(new KeptItems({ budget, ...keptItems(config.bufferLimit) }));
  const v1 = v1Routes({
    stateDir: config.stateDir,
    spooled: new BufferBudget(config.spoolLimit, "SVC_SPOOL_LIMIT"),
    images,
    drawings,
    kept,
  });
  const files = openFileLimit();
  const limits = files === undefined ? undefined : connectionLimits(files);
  const app = await buildApp({
    dispatcher,
    cors,
    connections: new ConnectionLimiter(limits),
    bodyLimitBytes: config.bodyLimit,
    v1Routes: v1,
    log,
    gate,
    isStrict: options.isStrict === true,
    management: {
      index,
      operator: () => published.operator(),
      traffic,
      admission,
      metrics,
      images,
      drawings,
      upstreams,
      resources,
      requests: stack.use(await openRequestStore(config.stateDir)),
      hardware: stack.use(await openHardwareStore(config.stateDir)),
      manifests,
      openUpstreams,
      writer: manifests.writer({
        configDir: config.configDir,
        stateDir: config.stateDir,
        isReadOnly: config.readOnly,
      }),
      authenticator,
      tokens,
      log,
      config,
      configOrigins: options.configOrigins ?? {},
      version,
      v1: v1Shapes(v1),
      startedAt,
      isReady,
      stopping: deadline.signal,
      watch: (onChange) => published.watch(onChange),
    },
  });
  // Whatever may fail comes before: what listens is not ended with the rest.
  await noteAuthMode(config.stateDir, config.authEnabled);
  const known = await tokens.list();
  const tokenCounts = { all: known.length, unconfirmed: known.filter((each) => !each.is_confirmed).length };
  await app.fastify.listen({ port: config.port, host: config.host });
  const address = app.server.address();
  const port = typeof address === "object" && address !== null ? address.port : config.port;
  const url = localUrl(config.host, port);
  log.info(`gateway listens on ${url}`);
  if (files !== undefined && limits !== undefined)
    log[files < 1024 ? "warn" : "info"](
      `${files} files and connections may be open at once (the hard limit of RLIMIT_NOFILE): ${limits.served} clients are served`,
    );
  for (const { level, text } of reachLines(config, port, tokenCounts)) log[level](text);
  const owned = stack.move();
  return {
    port,
    url,
    routes: app.routes,
    seenRevision: (slot) => index().slots.get(slot)?.revision,
    release: () => void NetServer.prototype.close.call(app.server),
    async close({ drainSeconds, hurry }) {
      isDraining = true;
      await drain({ dispatcher, firstLook, app, deadline, log }, { drainSeconds, hurry });
      await owned.disposeAsync();
    },
  };
}
