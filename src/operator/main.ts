import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Logger } from "pino";
import type { Config } from "../api/config.ts";
import type { EngineImages } from "../api/engine-images.ts";
import type { ModelRecord } from "../api/model.ts";
import type { EngineHost } from "../engines/engine.ts";
import { engines } from "../engines/registry.ts";
import { aborted } from "../lib/aborted.ts";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { bootId } from "../lib/boot-id.ts";
import { readText } from "../lib/read-text.ts";
import { openRegistry } from "../models/registry.ts";
import { openPortLeases, type HeldPort } from "../runtimes/ports.ts";
import { firstWords } from "../runtimes/said.ts";
import { RuntimeUnavailable } from "../runtimes/runtime-unavailable.ts";
import type { Runtime } from "../runtimes/runtime.ts";
import { openDemandStore } from "../store/demand.ts";
import { EngineLockFile } from "../store/engine-images.ts";
import { openFileSource } from "../store/files.ts";
import { openHardwareStore } from "../store/hardware.ts";
import { acquireLock, usualLock } from "../store/lock.ts";
import { clearOddFiles } from "../store/odd-files.ts";
import { openPublisher, readRegistry } from "../store/published.ts";
import { openRemovals } from "../store/removals.ts";
import { openRequestStore } from "../store/requests.ts";
import { keepReserve, withReserve } from "../store/reserve.ts";
import type { SourceProblem } from "../store/store.ts";
import { Complaints } from "./complaints.ts";
import { ComputeBook } from "./compute.ts";
import { ConflictIndex } from "./conflicts.ts";
import { Controller } from "./controller.ts";
import { followHardware, type Look } from "./hardware.ts";
import { FreedMemory } from "./freed-memory.ts";
import { HealthBook } from "./health.ts";
import { startHeartbeat } from "./heartbeat.ts";
import { MemoryBook, type GpuHoldings } from "./memory.ts";
import { OperatorMetrics } from "./metrics.ts";
import { httpProbe } from "./probe.ts";
import { defaultBackoff, systemClock } from "./queue.ts";
import { openRuntimes } from "./runtimes.ts";
import { Written } from "./written.ts";
import { serveOperator } from "./server.ts";
import { readPublished, stopEngines, type Haste } from "./stopping.ts";
import type { World } from "./world.ts";

/** Engines stay for a successor: what is asked of a silent runtime is given up soon. */
const lastLookMs = 1500;

export interface RunningOperator extends AsyncDisposable {
  /** Loopback port of metrics and probes. */
  readonly port: number;
  /** Ends every engine of this instance; used by `berth up` and `berth down`. */
  stopEngines(options: Haste): Promise<void>;
}

/**
 * Runs the operator until disposed. Engines keep running for a successor unless `stopEngines` is called. Start
 * order is the order of this function; disposal is its mirror.
 */
export async function runOperator(
  config: Config,
  options: {
    log: Logger;
    host: EngineHost;
    look: Look;
    holdings: GpuHoldings;
    images: EngineImages;
    isPaused: boolean;
    /** Once aborted, the first look at every slot is waited for no more. */
    signal: AbortSignal;
    /** Called once, before the first engine may be started: from then on there may be some to end. */
    onActing: () => void;
    /**
     * Another may run over the same state directory by now: it was deleted, or taken. This one must end, and leaves its
     * engines to be found by the next.
     */
    onLost: () => void;
  },
): Promise<RunningOperator> {
  const { log } = options;
  await mkdir(config.stateDir, { recursive: true });
  await using stack = new AsyncDisposableStack();
  let instance: string | undefined;
  const onLost = (): void => {
    void keepInstance(config.stateDir, instance)
      .catch((error: unknown) => log.error({ err: error }, "the instance could not be written down again"))
      .finally(options.onLost);
  };
  const lockPath = join(config.stateDir, "operator.lock");
  await clearOddFiles(config.stateDir, (line) => log.warn(line));
  stack.use(await withReserve(config.stateDir, () => acquireLock(lockPath, { ...usualLock, onLost })));
  await keepReserve(config.stateDir);
  instance = await instanceId(config.stateDir);
  const publisher = await openPublisher(config.stateDir, {
    onUnknown: (what) => log.warn(`another version of the operator has left what this one does not know: ${what}`),
  });
  const published = await readPublished(publisher, config.stateDir, bootId());
  const removals = stack.use(await openRemovals(config.stateDir));
  const seed = [...published.values()];
  const before = readRegistry(config.stateDir);
  const source = stack.use(
    await openFileSource({
      configDir: config.configDir,
      seed,
      ...(before === undefined ? {} : { seedRegistry: before }),
      removals,
    }),
  );
  const demand = stack.use(await openDemandStore(config.stateDir));
  const requests = stack.use(await openRequestStore(config.stateDir));
  const runtime = stack.use(await openRuntimes(config, instance, published.values()));
  const hardware = stack.use(
    await followHardware({
      store: stack.use(await openHardwareStore(config.stateDir)),
      look: options.look,
      published: published.values(),
      onError: (error) => log.error({ err: error }, "what the hardware is could not be published"),
    }),
  );
  const lock = await EngineLockFile.openAnyway(config.stateDir, (line) => log.error(line));
  const registry = stack.use(await openRegistry({ modelsDir: config.modelsDir }));
  const models: { current: ReadonlyMap<string, ModelRecord> } = { current: new Map() };
  const written = new Written(publisher, log);
  const world: World = {
    source,
    publisher,
    written,
    demand,
    requests,
    runtime,
    ports: await openPortLeases(config.stateDir, config.slotPorts, await heldPorts(runtime)),
    engines,
    host: options.host,
    health: new HealthBook(httpProbe),
    memory: new MemoryBook(options.holdings, published),
    compute: new ComputeBook((process) => firstWords(config.stateDir, process)),
    conflicts: new ConflictIndex(),
    clock: systemClock,
    backoff: defaultBackoff,
    cores: availableParallelism(),
    defaultRuntime: config.runtime,
    containers: {
      isAnswering: () => runtime.answers("docker"),
      devicesFor: (slot, isRunning) => hardware.devicesFor(slot, isRunning),
      memory: () => hardware.memory(),
      watch: (onChange) => {
        const both = new DisposableStack();
        both.use(hardware.watch(onChange));
        both.use(runtime.watchAnswering(onChange));
        return both;
      },
      images: options.images,
      lock: () => lock.lock,
      remember: (image, digest) => lock.record(image, digest),
    },
    freed: new FreedMemory(published.values()),
    models: () => models.current,
    published,
  };
  const controller = stack.use(
    new Controller({
      world,
      registry,
      models,
      resources: before?.resources ?? [],
      log,
      isPaused: options.isPaused,
      metrics: (queue) => new OperatorMetrics(queue),
    }),
  );
  for (const slot of published.values()) controller.metrics.published(slot, undefined);
  let isReady = false;
  const server = stack.use(
    await serveOperator({
      port: config.operatorPort,
      registry: controller.metrics.registry,
      isReady: () => isReady,
      places: config,
    }),
  );
  const startedAt = new Date().toISOString();
  const complaints = new Complaints(log);
  const tellProblems = (): readonly SourceProblem[] => {
    controller.restore();
    const problems = source.problems();
    complaints.tell(
      "Source",
      problems.map(({ reason, message }) => `${reason}: ${message}`),
    );
    return [...problems, ...written.problems(config.stateDir)];
  };
  const heartbeat = stack.use(
    await startHeartbeat({
      publisher,
      onFailing: (error) => log.error({ err: error }, "the state directory cannot be written; trying on each second"),
      onEnd: () => {
        log.info("the state directory can be written again");
        void keepReserve(config.stateDir);
        // What failed with it need not wait until its own next try.
        void controller.resync().catch((error: unknown) => log.error({ err: error }, "resync failed"));
      },
      read: () => {
        const problems = tellProblems();
        return {
          schema: 1,
          instance,
          pid: process.pid,
          bootId: bootId(),
          startedAt,
          isPaused: options.isPaused,
          isSettled: isReady,
          configDir: config.configDir,
          problems: problems.map(({ reason, message, file }) => ({
            reason,
            message,
            ...(file === undefined ? {} : { file }),
          })),
        };
      },
    }),
  );
  options.onActing();
  await Promise.race([controller.start(), aborted(options.signal)]);
  if (!options.signal.aborted) {
    isReady = true;
    await heartbeat.beat();
    log.info({ config: config.configDir, state: config.stateDir }, `operator watches ${config.configDir}`);
  }
  const owned = stack.move();
  return {
    port: server.port,
    async stopEngines(stopOptions) {
      runtime.hurry(stopOptions.lookMs);
      // Nothing may start an engine again while they are ended.
      await controller[Symbol.asyncDispose]();
      await stopEngines(runtime, publisher, published.values(), stopOptions);
    },
    [Symbol.asyncDispose]() {
      runtime.hurry(lastLookMs);
      return owned.disposeAsync();
    },
  };
}

/** Ports of containers: they have no record on disk. */
async function heldPorts(runtime: Runtime): Promise<readonly HeldPort[]> {
  const held: HeldPort[] = [];
  for (const slot of await runtime.list()) {
    try {
      for (const { role, port, id } of await runtime.observe(slot)) if (!("pid" in id)) held.push({ slot, role, port });
    } catch (error) {
      // Found when its slot is looked at: until then an automatic port passes over it because somebody listens there.
      if (!(error instanceof RuntimeUnavailable)) throw error;
    }
  }
  return held;
}

/** For who comes next: engines that run carry the name, and by another nobody would find them. */
async function keepInstance(stateDir: string, instance: string | undefined): Promise<void> {
  if (instance === undefined) return;
  await mkdir(stateDir, { recursive: true });
  const path = join(stateDir, "instance");
  if ((await readText(path)) === undefined) await writeFileAtomic(path, `${instance}\n`, { fsync: true });
}

/** Names this installation on shared runtimes; made once. */
export async function instanceId(stateDir: string): Promise<string> {
  const path = join(stateDir, "instance");
  const known = (await readText(path))?.trim() ?? "";
  if (known !== "") return known;
  const made = randomUUID();
  // For good: under another name this installation would not find its own containers again.
  await writeFileAtomic(path, `${made}\n`, { fsync: true });
  return made;
}
