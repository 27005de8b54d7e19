import { readdirSync, readFileSync } from "node:fs";
import type { Container, Observed, Workload } from "../../src/api/workload.ts";
import { openApiClient, type ApiClient } from "../../src/kubernetes/client.ts";
import { connect } from "../../src/kubernetes/connection.ts";
import type { LogLine, TailOptions } from "../../src/runtimes/logs/logs.ts";
import type { PodSite } from "../../src/runtimes/kubernetes/pod.ts";
import { openKubernetesRuntime } from "../../src/runtimes/kubernetes/kubernetes.ts";
import { tailPodLogs } from "../../src/runtimes/kubernetes/pod-logs.ts";
import type { Runtime } from "../../src/runtimes/runtime.ts";
import { plainContainer } from "../support/container.ts";
import { defaultAccount } from "../support/kube/control-plane.ts";
import { engineImage } from "../support/kube/images.ts";
import type { NodeApiServer } from "../support/kube/node.ts";
import { until } from "../support/until.ts";
import type { Site } from "../runtimes/conformance.ts";

/** An installation in a namespace of its own. */
export class ClusterSite implements Site {
  readonly hasHostPorts = false;
  readonly cluster: NodeApiServer;
  readonly namespace: string;
  readonly client: ApiClient;
  readonly #neighbour: string;

  private constructor(cluster: NodeApiServer, namespace: string, neighbour: string, client: ApiClient) {
    this.cluster = cluster;
    this.namespace = namespace;
    this.#neighbour = neighbour;
    this.client = client;
  }

  static async make(cluster: NodeApiServer): Promise<ClusterSite> {
    const namespace = await cluster.namespace();
    const neighbour = await cluster.namespace();
    for (const name of [namespace, neighbour])
      await until("its service account", () => cluster.ask(defaultAccount(name)));
    return new ClusterSite(cluster, namespace, neighbour, await clientFor(cluster, namespace));
  }

  async open(site: Partial<PodSite> = {}): Promise<Runtime> {
    return await this.#open(this.namespace, site);
  }

  async openNeighbour(): Promise<Runtime> {
    return await this.#open(this.#neighbour, {});
  }

  async #open(namespace: string, site: Partial<PodSite>): Promise<Runtime> {
    return await openKubernetesRuntime({
      client: await clientFor(this.cluster, namespace),
      site: { instance: "test", user: 65_532, ...site },
    });
  }

  logs(slot: string, options: TailOptions): AsyncIterable<LogLine> {
    return tailPodLogs(this.client, slot, options);
  }

  workload(_port: number, flags: readonly string[] = [], container: Partial<Container> = {}): Workload {
    return {
      slot: "primary",
      role: "main",
      ordinal: 0,
      hash: "hash-1",
      runtime: "kubernetes",
      command: flags,
      env: { HOST: "0.0.0.0", PORT: "8080", SLOT: "primary", MODEL: "double" },
      workingDir: undefined,
      port: 8080,
      stopSeconds: 30,
      container: {
        ...plainContainer,
        image: engineImage,
        pod: { backend: "cpu", extended: {}, claims: [] },
        ...container,
      },
    };
  }

  missingProgram(port: number): Workload {
    return { ...this.workload(port, [], { replacesEntrypoint: true }), command: ["/opt/no-such-engine"] };
  }

  /** By the kernel, past the cluster. */
  async kill({ id }: Observed, signal: NodeJS.Signals): Promise<void> {
    if (!("podName" in id)) throw new Error("this is no Pod");
    const uid = await this.cluster.kubectl([
      "-n",
      this.namespace,
      "get",
      "pod",
      id.podName,
      "-o",
      "jsonpath={.metadata.uid}",
    ]);
    const [first] = processesOf([uid]);
    if (first === undefined) throw new Error(`the Pod ${id.podName} runs nothing`);
    process.kill(first, signal);
  }

  async population(): Promise<number> {
    const uids = await this.cluster.kubectl([
      "-n",
      this.namespace,
      "get",
      "pods",
      "-o",
      'jsonpath={range .items[*]}{.metadata.uid}{"\\n"}{end}',
    ]);
    return processesOf(uids.split("\n").filter((uid) => uid !== "")).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client[Symbol.dispose]();
    for (const name of [this.namespace, this.#neighbour])
      await this.cluster.kubectl(["-n", name, "delete", "pods", "--all", "--grace-period=1"]);
  }
}

async function clientFor(cluster: NodeApiServer, namespace: string): Promise<ApiClient> {
  const connection = await connect({ KUBECONFIG: cluster.kubeconfig });
  return openApiClient({ ...connection, namespace });
}

/** The live programs of these Pods, without the sandboxes' own, the oldest first. */
function processesOf(uids: readonly string[]): readonly number[] {
  const found = readdirSync("/proc").filter((name) => {
    try {
      if (!/^\d+$/.test(name)) return false;
      const command = readFileSync(`/proc/${name}/cmdline`, "latin1");
      // A zombie has no command line.
      if (command === "" || command.startsWith("/pause")) return false;
      const groups = readFileSync(`/proc/${name}/cgroup`, "latin1").replaceAll("_", "-");
      return uids.some((uid) => groups.includes(uid));
    } catch {
      return false;
    }
  });
  return found.map(Number).toSorted((a, b) => a - b);
}
