import { randomUUID } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Dockerode from "dockerode";
import type { Container, Observed, Workload } from "../../src/api/workload.ts";
import { openDockerRuntime } from "../../src/runtimes/docker/docker.ts";
import type { DockerRuntimeOptions } from "../../src/runtimes/docker/docker-options.ts";
import { tailLogs, type LogLine, type TailOptions } from "../../src/runtimes/logs/logs.ts";
import type { Runtime } from "../../src/runtimes/runtime.ts";
import type { Site } from "../runtimes/conformance.ts";
import { engineImage } from "./images.ts";
import { removed } from "./patient.ts";
import { plainContainer } from "../support/container.ts";

/** The daemon that `make test-docker` has started. */
export function testSocket(): string {
  const path = process.env["BERTH_TEST_DOCKER"];
  if (path === undefined || path === "") {
    throw new Error("no Docker daemon to test with: run `make test-docker`, or name a socket in BERTH_TEST_DOCKER");
  }
  return path;
}

/**
 * An installation with a state directory of its own on the daemon of the tests. What it has made is removed with it.
 */
export class DockerSite implements Site {
  readonly instance = randomUUID();
  readonly stateDir = mkdtempSync(join(tmpdir(), "berth-docker-"));
  readonly socketPath: string;
  readonly api: Dockerode;
  readonly #neighbour = randomUUID();

  constructor(socketPath = testSocket()) {
    this.socketPath = socketPath;
    this.api = new Dockerode({ socketPath });
  }

  async open(options: Partial<DockerRuntimeOptions> = {}): Promise<Runtime> {
    return await openDockerRuntime({
      stateDir: this.stateDir,
      instance: this.instance,
      dockerHost: `unix://${this.socketPath}`,
      ...options,
    });
  }

  readonly hasHostPorts = true;

  logs(slot: string, options: TailOptions): AsyncIterable<LogLine> {
    return tailLogs(this.stateDir, slot, options);
  }

  async openNeighbour(): Promise<Runtime> {
    return await this.open({ stateDir: join(this.stateDir, "neighbour"), instance: this.#neighbour });
  }

  workload(port: number, flags: readonly string[] = [], container: Partial<Container> = {}): Workload {
    return {
      slot: "primary",
      role: "main",
      ordinal: 0,
      hash: "hash-1",
      runtime: "docker",
      command: flags,
      env: { HOST: "0.0.0.0", PORT: "8080", SLOT: "primary", MODEL: "double" },
      workingDir: undefined,
      port,
      stopSeconds: 30,
      container: {
        ...plainContainer,
        image: engineImage,
        ...container,
      },
    };
  }

  missingProgram(port: number): Workload {
    return { ...this.workload(port, [], { replacesEntrypoint: true }), command: ["/opt/no-such-engine"] };
  }

  /** By the kernel, past the daemon. */
  async kill({ id }: Observed, signal: NodeJS.Signals): Promise<void> {
    if (!("containerId" in id)) throw new Error("this is no container");
    const { State: state } = await this.api.getContainer(id.containerId).inspect();
    process.kill(state.Pid, signal);
  }

  async population(): Promise<number> {
    const ids = await this.containers(this.instance);
    return readdirSync("/proc").filter((name) => {
      try {
        // A zombie has no command line.
        if (readFileSync(`/proc/${name}/cmdline`, "latin1") === "") return false;
        const groups = readFileSync(`/proc/${name}/cgroup`, "latin1");
        return /^\d+$/.test(name) && ids.some((id) => groups.includes(id));
      } catch {
        return false;
      }
    }).length;
  }

  async containers(instance = this.instance): Promise<string[]> {
    const filters = { label: [`dev.berth.instance=${instance}`] };
    return (await this.api.listContainers({ all: true, filters })).map(({ Id: id }) => id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const instance of [this.instance, this.#neighbour]) {
      for (const id of await this.containers(instance)) await removed(this.api.getContainer(id));
      const filters = { label: [`dev.berth.instance=${instance}`] };
      for (const { Id: id } of await this.api.listNetworks({ filters })) await removed(this.api.getNetwork(id));
    }
    await rm(this.stateDir, { recursive: true, force: true });
  }
}
