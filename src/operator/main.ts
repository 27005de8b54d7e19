import { availableParallelism } from "node:os";
import type { Config } from "../api/config.ts";
import type { ModelRecord } from "../api/model.ts";
import { engines } from "../engines/registry.ts";
import { aborted } from "../lib/aborted.ts";
import { openModels } from "./open-models.ts";
import { openStore } from "../store/open.ts";
import type { LeaderStore } from "../store/opened-store.ts";
import type { Lease, SourceProblem } from "../store/store.ts";
import { DeduplicatedLog } from "./report/deduplicated-log.ts";
import { ComputeRecords } from "./observe/compute.ts";
import { EngineContexts } from "./contexts/contexts.ts";
import { Learning } from "./act/learning.ts";
import { ConflictIndex } from "./observe/conflicts.ts";
import { Controller } from "./controller.ts";
import { engineOutput } from "./observe/engine-output.ts";
import { followHardware } from "./observe/hardware.ts";
import { FitRecords } from "./observe/fit.ts";
import { FreedMemory } from "./observe/freed-memory.ts";
import { StartingMemory } from "./observe/starting-memory.ts";
import type { OperatorOptions } from "./options.ts";
import { HealthRecords } from "./observe/health.ts";
import { GroupLedger } from "./groups/ledger.ts";
import { heldPorts } from "./ports/held.ts";
import { openPortLeases } from "./ports/leases.ts";
import { publishedProblems, startHeartbeat } from "./report/heartbeat.ts";
import { MemoryRecords } from "./observe/memory.ts";
import { metricSources } from "./report/metric-sources.ts";
import { OperatorMetrics } from "./report/metrics.ts";
import { httpProbe } from "./observe/probe.ts";
import { defaultBackoff } from "./plan/backoff.ts";
import { systemClock } from "./queue.ts";
import { ModelScan } from "../models/scan.ts";
import { ModelTasks } from "./pulls/model-tasks.ts";
import { PullRequests } from "./pulls/pull-requests.ts";
import { SlotMemories } from "./slot-memory.ts";
import { openRuntimes } from "../runtimes/registry.ts";
import { PublishedWriter } from "./report/written.ts";
import { serveOperator, type OperatorServer } from "./report/server.ts";
import { publishedBefore, stopEngines, type StopAllOptions } from "./act/stopping.ts";
import type { Dependencies } from "./dependencies.ts";

/** Engines stay for the next operator: requests to an unreachable runtime are abandoned soon. */
const lastRequestMs = 1500;

/** A driver that hangs must not keep a slot from starting. */
const hardwareProbeMs = 3000;

export interface RunningOperator extends AsyncDisposable {
  /** Loopback port of metrics and probes. */
  readonly port: number;
  /** Ends every engine of this instance; used by `berth up` and `berth down`. */
  stopEngines(options: StopAllOptions): Promise<void>;
}

/**
 * Runs the operator until disposed. Engines keep running for the next operator unless `stopEngines` is called. Start
 * order is the order of this function; disposal is its mirror.
 */
export async function runOperator(config: Config, options: OperatorOptions): Promise<RunningOperator> {
  const { log } = options;
  await using stack = new AsyncDisposableStack();
  const store = openStore(config);
  const onWarning = (line: string): void => log.warn(line);
  const opened: { current?: LeaderStore; lease?: Lease } = {};
  let isLost = false;
  const onLost = (deleted?: string): void => {
    // The lock and a part of the state may be missed in the same second.
    if (isLost) return;
    isLost = true;
    void Promise.resolve(opened.current?.restoreInstance())
      .catch((error: unknown) => log.error({ err: error }, "the instance could not be written down again"))
      .finally(() => options.onLost(deleted));
  };
  let state: "starting" | "standby" | "ready" = "starting";
  let metrics: OperatorMetrics | undefined;
  const serve = async (): Promise<OperatorServer> =>
    await serveOperator({
      port: config.operatorPort,
      metrics: () => metrics?.page,
      state: () => state,
      lease: () => opened.lease,
      places: config,
    });
  let server: OperatorServer | undefined;
  if (options.isStandby === true) {
    state = "standby";
    server = stack.use(await serve());
  }
  const onWaiting = (leader: number): void => log.info(`standby: the operator that leads is process ${leader}`);
  const standby = options.isStandby === true ? { standby: { onWaiting, signal: options.signal } } : {};
  const lease = (opened.lease = stack.use(await store.lead({ onWarning, onLost: () => onLost(), ...standby })));
  state = "starting";
  const leading = await store.forLeader(lease, {
    onWarning,
    onDeleted: onLost,
    version: options.version,
    onUnknown: (what) =>
      log.warn(`another version of the operator has left a value that this version does not know: ${what}`),
  });
  opened.current = leading;
  const { instance, publisher, before } = leading;
  const inputs = stack.use(await leading.inputs());
  const { source, demand, requests, groups: groupStore, engineLock, run } = inputs;
  const runtime = stack.use(await openRuntimes(config, instance, before.slots, { check: () => lease.check() }));
  const published = publishedBefore(before, runtime);
  const written = new PublishedWriter(publisher, log);
  // With the first heartbeat gateways trust the published state, which must not contain engines that a reboot of this
  // machine has ended.
  for (const slot of before.slots) {
    const now = published.get(slot.name);
    if (now !== undefined && now !== slot) await publisher.writeSlot(now);
  }
  const memories = new SlotMemories();
  const hardware = stack.use(
    await followHardware({
      memories,
      store: inputs.hardware,
      probe: options.probe,
      isPaused: options.isPaused,
      published: published.values(),
      onError: (error) => log.error({ err: error }, "the hardware could not be published"),
    }),
  );
  const { headers, fetching, registry } = stack.use(
    await openModels(config, options, {
      boot: runtime.boot,
      before: before.registry,
      pullRequests: inputs.pullRequests,
      run,
    }),
  );
  const { isPaused } = options;
  const pullRequests = stack.use(
    new PullRequests({ sets: inputs, pulls: fetching.pulls, shapes: fetching.shapes, log, isPaused }),
  );
  const models: { current: ReadonlyMap<string, ModelRecord> } = { current: new Map() };
  const contextFiles = inputs.contextFiles(runtime.boot, () => runtime.engineOwner());
  const contexts = new EngineContexts({
    files: contextFiles,
    memories,
    clock: systemClock,
    log,
    reserveBytes: config.diskReserve,
    models: () => models.current,
    runtime,
    outputOf: engineOutput(runtime, config.stateDir),
  });
  const memory = new MemoryRecords(options.holdings, published, (engine, pid) => runtime.owns(engine, pid), memories);
  const onUnfit = (error: unknown): void => log.warn({ err: error }, "the memory needs of a slot cannot be recorded");
  const dependencies: Dependencies = {
    source,
    publisher,
    written,
    demand,
    requests,
    runtime,
    ports: await openPortLeases(runtime.hostPorts, config.slotPorts, await heldPorts(runtime)),
    engines,
    host: { ...options.host, contextDir: contextFiles.directory },
    contexts,
    health: new HealthRecords(httpProbe, memories, systemClock),
    memory,
    fit: new FitRecords({
      headers,
      figures: inputs.fitFigures,
      hardware: () => hardware.facts(),
      remote: fetching.shapes,
      onError: onUnfit,
    }),
    learning: new Learning({
      figures: inputs.fitFigures,
      probeNow: () => options.probe(AbortSignal.timeout(hardwareProbeMs)),
      print: options.print,
      remote: fetching.shapes,
      measureProcesses: () => void memory.measure(),
      onError: onUnfit,
    }),
    compute: new ComputeRecords(engineOutput(runtime, config.stateDir), memories),
    conflicts: new ConflictIndex(),
    clock: systemClock,
    backoff: defaultBackoff,
    cores: availableParallelism(),
    defaultRuntime: config.runtime,
    groups: new GroupLedger(memories, groupStore.published(), systemClock.now(), systemClock.elapsedMs()),
    groupStore,
    machine: hardware,
    images: {
      shipped: options.images,
      lock: () => engineLock.lock,
      record: (image, digest) => engineLock.record(image, digest),
    },
    pulls: fetching.pulls,
    freed: new FreedMemory(published.values()),
    starting: new StartingMemory(published, memories, () => hardware.facts()),
    models: () => models.current,
    published,
    memories,
  };
  let heartbeat: Awaited<ReturnType<typeof startHeartbeat>> | undefined;
  const controller = stack.use(
    new Controller({
      dependencies,
      registry,
      models,
      pullRequests,
      resources: before.registry?.resources ?? [],
      beat: async () => await heartbeat?.beat(),
      log,
      isPaused: options.isPaused,
      metrics: (queue) =>
        (metrics = new OperatorMetrics(
          queue,
          metricSources({
            pulls: fetching.pulls,
            traits: config.runtime === "auto" ? undefined : runtime.traitsOf(config.runtime),
            facts: () => hardware.facts(),
            probe: options.probe,
            isPaused,
          }),
        )),
    }),
  );
  for (const slot of published.values()) controller.metrics.published(slot, undefined);
  server ??= stack.use(await serve());
  const incarnation = { instance, pid: process.pid, bootId: runtime.boot, startedAt: new Date().toISOString() };
  const problemLog = new DeduplicatedLog(log);
  const tellProblems = (): readonly SourceProblem[] => {
    controller.restore();
    const problems = [...source.problems(), ...run.problems()];
    problemLog.report(
      "Source",
      problems.map(({ reason, message }) => `${reason}: ${message}`),
    );
    return [...problems, ...written.problems()];
  };
  heartbeat = stack.use(
    await startHeartbeat({
      publisher,
      onFailing: (error) => log.error({ err: error }, "no state can be written; trying on each second"),
      onEnd: () => {
        log.info("state can be written again");
        // Writes that failed with it need not wait until their own next attempt.
        void controller.resync().catch((error: unknown) => log.error({ err: error }, "resync failed"));
      },
      read: () => ({
        schema: 1,
        ...incarnation,
        isPaused,
        isSettled: state === "ready",
        slotCount: published.size,
        unexpectedEnds: run.unexpectedEnds(),
        configDir: config.configDir,
        problems: publishedProblems(tellProblems()),
      }),
    }),
  );
  const running = stack.use(run.begin());
  options.signal.addEventListener("abort", () => running[Symbol.dispose](), { once: true });
  options.onActing();
  await Promise.race([controller.start(), aborted(options.signal)]);
  if (!options.signal.aborted) {
    // Not before the registry was read: files that other models have must not be deleted.
    const { store: fetched, pulls, flm, listHub } = fetching;
    const { modelsDir } = config;
    const records = (): ModelRecord[] => [...models.current.values()];
    const files = {
      sets: inputs,
      modelsDir,
      store: fetched,
      pulls,
      flm,
      listHub,
      scan: new ModelScan(modelsDir, headers),
      records,
    };
    stack.use(new ModelTasks({ ...files, log, isPaused }));
    state = "ready";
    await heartbeat.beat();
    log.info({ config: config.configDir, state: config.stateDir }, `operator watches ${config.configDir}`);
  }
  const owned = stack.move();
  return {
    port: server.port,
    async stopEngines(stopOptions) {
      runtime.limitUnreachableWait(stopOptions.listTimeoutMs);
      // No reconcile may start an engine again while they are ended.
      await controller[Symbol.asyncDispose]();
      await stopEngines(runtime, publisher, published.values(), stopOptions);
    },
    [Symbol.asyncDispose]() {
      runtime.limitUnreachableWait(lastRequestMs);
      return owned.disposeAsync();
    },
  };
}
