import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { compareProcesses, isSameProcess, processKey, processName, type ProcessRef } from "../../api/process-ref.ts";
import type { Container, Observed, Workload } from "../../api/workload.ts";
import { aborted } from "../../lib/aborted.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { givenTo } from "../process/child.ts";
import { defaultLogBytes } from "../logs/log-rotation.ts";
import type { Preparation, RemoveOptions, Runtime } from "../runtime.ts";
import { BadWorkload } from "../start-failure.ts";
import { containerOptions } from "./container-options.ts";
import { Daemon, DaemonRefusal } from "./daemon.ts";
import { Images } from "./images.ts";
import { gpuDriver, hostFacts } from "./host-facts.ts";
import { inForce, isAlive, observed, type Inspected } from "./inspected.ts";
import { lastOutput } from "./last-output.ts";
import { endContainer, makeContainer } from "./lifecycle.ts";
import { Network } from "./network.ts";
import { labelFilter, labelsFor, nameFor } from "./label.ts";
import { Listeners } from "./listening.ts";
import { LogCopies } from "./log-copy.ts";
import type { DockerRuntimeOptions } from "./docker-options.ts";
import { refuseDisks, refusePrivilegedMounts, type MountGuard } from "./privileged-mounts.ts";
import { dockerTraits } from "./traits.ts";
import { refuseContextPlace, refusedStart, startRefusal, type RefusedStart } from "./start-refusal.ts";
import { ContainerView } from "./view.ts";

/** The last output of an ended container is in its log by then; a daemon that hangs must not delay a start. */
const drainMs = 2000;

/**
 * Runs engines as containers of one Docker daemon or Podman service. Opening does not need the daemon: until it
 * answers, and whenever it does not, reads throw RuntimeUnavailable.
 */
export async function openDockerRuntime(options: DockerRuntimeOptions): Promise<Runtime> {
  await mkdir(join(options.stateDir, "logs"), { recursive: true });
  const runtime = new DockerRuntime(options);
  await (options.signal === undefined ? runtime.tried() : Promise.race([runtime.tried(), aborted(options.signal)]));
  return runtime;
}

class DockerRuntime implements Runtime {
  readonly traits = dockerTraits;
  readonly #options: DockerRuntimeOptions;
  readonly #daemon: Daemon;
  readonly #view: ContainerView;
  readonly #logs: LogCopies;
  readonly #images: Images;
  readonly #network: Network;
  readonly #listeningEngines = new Listeners();
  readonly #subscribers = new Subscribers<[slot: string]>();
  readonly #answering = new Subscribers<[]>();
  readonly #refused = new Map<string, RefusedStart>();
  readonly #closing = new AbortController();

  constructor(options: DockerRuntimeOptions) {
    this.#options = options;
    this.#daemon = Daemon.at(
      options.dockerHost,
      options.listTimeoutMs === undefined ? {} : { readTimeoutMs: options.listTimeoutMs },
    );
    this.#logs = new LogCopies({
      daemon: this.#daemon,
      stateDir: options.stateDir,
      logBytes: options.logBytes ?? defaultLogBytes,
    });
    this.#network = new Network(this.#daemon, options.instance);
    this.#images = new Images({
      daemon: this.#daemon,
      env: options.env ?? process.env,
      onSlot: (slot) => this.#notify(slot),
    });
    this.#view = new ContainerView({
      daemon: this.#daemon,
      instance: options.instance,
      onSlot: (slot) => this.#notify(slot),
      onAnswering: () => this.#answering.notify(),
    });
  }

  async tried(): Promise<void> {
    await this.#view.tried();
  }

  isAnswering(): boolean {
    return this.#view.isUp;
  }

  watchAnswering(onChange: () => void): Disposable {
    return this.#answering.add(onChange);
  }

  limitUnreachableWait(ms: number): void {
    this.#daemon.limitUnreachableWait(ms);
  }

  async observe(slot: string): Promise<readonly Observed[]> {
    const found: Observed[] = [];
    const containers = this.#view.all().filter(({ label }) => label.slot === slot);
    const byName = Map.groupBy(containers, ({ label }) => processName(label));
    for (const same of byName.values()) {
      const seen = inForce(same);
      if (seen !== undefined) found.push(await this.#observed(seen));
    }
    for (const refused of this.#refused.values())
      if (refused.slot === slot && !byName.has(processName(refused))) found.push(refused);
    return found.toSorted(compareProcesses);
  }

  /** Lists the daemon's containers again, in case an event was lost. */
  async list(): Promise<readonly string[]> {
    await this.#view.relist();
    const refused = [...this.#refused.values()].map(({ slot }) => slot);
    return [...new Set([...this.#view.all().map(({ label }) => label.slot), ...refused])];
  }

  async preparation({ slot, container }: Workload, attempt: string): Promise<Preparation> {
    return container === undefined
      ? { state: "ready" }
      : await this.#images.preparation(slot, container.image, attempt);
  }

  async fetch({ slot, container }: Workload, attempt: string): Promise<void> {
    if (container !== undefined) await this.#images.fetch(slot, container.image, attempt);
  }

  async keepFetches(slot: string, images: readonly string[]): Promise<void> {
    await this.#images.keepOnly(slot, images);
  }

  async ensure(workload: Workload): Promise<void> {
    const { slot, container } = workload;
    if (container === undefined) throw new Error(`the workload of ${slot} is no container`);
    for (const known of await this.#find(slot, workload)) {
      if (!isAlive(known)) {
        await this.#delete(known);
        continue;
      }
      if (known.label.hash !== workload.hash || known.label.port !== workload.port) {
        throw new Error(
          `another version of ${slot} (${processName(workload)}) still runs as container ${known.id.slice(0, 12)}`,
        );
      }
      if (known.info.State.Paused) await this.#daemon.settle((api) => api.getContainer(known.id).unpause());
      await this.#view.refresh(known.id);
      return;
    }
    this.#refused.delete(processKey(workload));
    try {
      await this.#network.use((network) => this.#start(workload, container, network));
    } catch (error) {
      refuseContextPlace(error, workload);
      const refusal =
        error instanceof BadWorkload
          ? ({ reason: "StartFailed", message: error.message } as const)
          : startRefusal(error, workload.port);
      if (refusal === undefined) throw error;
      this.#refused.set(processKey(workload), refusedStart(workload, refusal));
      this.#notify(slot);
    }
  }

  async remove(slot: string, process: ProcessRef | undefined, options: RemoveOptions): Promise<void> {
    for (const [key, refused] of this.#refused) {
      if (refused.slot !== slot || (process !== undefined && !isSameProcess(refused, process))) continue;
      this.#refused.delete(key);
      this.#notify(slot);
    }
    const isKnownEmpty = this.#view.lastKnown()?.some(({ label }) => label.slot === slot) === false;
    let found: readonly Inspected[];
    try {
      found = await this.#find(slot, process);
    } catch (error) {
      // A daemon that is down cannot have started a container of ours since.
      if (isKnownEmpty && !(error instanceof DaemonRefusal)) return;
      throw error;
    }
    await Promise.all(
      found.map(async (container) => {
        await endContainer(this.#daemon, container, options, this.#closing.signal);
        await this.#delete(container);
      }),
    );
    if (found.length > 0 && this.#view.lastKnown()?.length === 0) await this.#network.remove();
  }

  async watch(onSlot: (slot: string) => void): Promise<Disposable> {
    return this.#subscribers.add(onSlot);
  }

  /** Containers keep running; those that are being ended are left to the next operator. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error("the operator is being stopped"));
    using daemon = this.#daemon;
    daemon.limitUnreachableWait(0);
    this.#subscribers.clear();
    this.#answering.clear();
    await this.#view.close();
    await this.#logs.close();
    await this.#images.close();
  }

  async #observed(container: Inspected): Promise<Observed> {
    let said = "";
    if (!isAlive(container)) {
      await this.#logs.drained(container.id, drainMs);
      said = await lastOutput(this.#options.stateDir, container);
    }
    return observed(container, said, this.#listeningEngines);
  }

  /** The daemon's containers of that process, or of the slot, with our label, the oldest first. */
  async #find(slot: string, process?: ProcessRef): Promise<readonly Inspected[]> {
    const label = labelFilter(this.#options.instance, slot);
    const listed = await this.#daemon.call((api) => api.listContainers({ all: true, filters: { label } }), "brief");
    await Promise.all(listed.map(({ Id: id }) => this.#view.refresh(id)));
    // Also where the view is not up: the daemon may list containers and report no events. It lists the newest first.
    const found = listed.toReversed().flatMap(({ Id: id }) => this.#view.get(id) ?? []);
    return process === undefined ? found : found.filter((each) => isSameProcess(each.label, process));
  }

  async #start(workload: Workload, container: Container, network: string): Promise<void> {
    const { instance, isUnrestricted } = this.#options;
    const facts = await hostFacts(container, await gpuDriver(this.#daemon, container));
    const models = facts.modelDirectories.map((source) => ({ source, target: source, readOnly: true }));
    if (isUnrestricted !== true) {
      await refusePrivilegedMounts([...container.mounts, ...models], await this.#mountGuard(container));
      await refuseDisks(container.devices);
    }
    const { env, bearer } = await givenTo(workload, this.#options.secrets);
    const labels = labelsFor(workload, instance, bearer !== undefined);
    const name = nameFor(workload, instance);
    const id = await makeContainer(
      this.#daemon,
      name,
      containerOptions(workload, container, { name, network, labels, env, facts }),
    );
    try {
      await this.#daemon.call((api) => api.getContainer(id).start());
    } catch (error) {
      await this.#daemon.settle((api) => api.getContainer(id).remove({ force: true, v: true }));
      this.#view.forget(id);
      throw error;
    }
    await this.#view.refresh(id);
  }

  async #mountGuard({ mounts }: Container): Promise<MountGuard> {
    const { stateDir, configDir, modelsDir } = this.#options;
    // The daemon's root directory is read only where a mount could name it.
    const info: { DockerRootDir?: string } =
      mounts.length === 0 ? {} : await this.#daemon.call((api) => api.info(), "brief");
    const guarded = [stateDir, configDir, info.DockerRootDir || undefined].filter((path) => path !== undefined);
    return { socket: this.#daemon.path, guarded, open: modelsDir === undefined ? [] : [modelsDir] };
  }

  /** Resolves once the daemon has removed it. */
  async #delete({ id }: Inspected): Promise<void> {
    await this.#logs.drained(id, drainMs);
    await this.#daemon.settle((api) => api.getContainer(id).remove({ force: true, v: true }));
    await this.#view.refresh(id);
    this.#logs.forget(id);
    this.#listeningEngines.forget(id);
  }

  #notify(slot: string): void {
    if (this.#closing.signal.aborted) return;
    const known = this.#view.lastKnown() ?? [];
    for (const container of known) if (container.label.slot === slot) this.#logs.follow(container);
    this.#subscribers.notify(slot);
  }
}
