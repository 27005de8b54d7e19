import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { serviceNetwork, startControlPlane, type ApiServer, type ControlPlane } from "./control-plane.ts";
import { nodeConfig } from "./node-config.ts";
import { kubeProgram, startProgram } from "./programs.ts";
import { until } from "../until.ts";

const run = promisify(execFile);
const nodeSchema = z.object({
  status: z.object({ conditions: z.array(z.object({ type: z.string(), status: z.string() })) }),
});

/** An API server with a real node, whose containerd any process can reach that knows the directory. */
export interface NodeApiServer extends ApiServer {
  /** Gives the node an image from a tar file in the form of `docker save`. */
  importImage(tarFile: string): Promise<void>;
  /** Runs containerd's own client in the namespace of the node's images. */
  ctr(...args: readonly string[]): Promise<string>;
}

/** A control plane with a real node: kubelet, containerd, a bridge for Pods, kube-proxy. */
export interface Cluster extends ControlPlane, NodeApiServer {}

/** Adds the node to a cluster that this or another process has started. */
export function withNode<Server extends ApiServer>(server: Server): Server & NodeApiServer {
  const ctr = async (...args: readonly string[]): Promise<string> =>
    (await run("ctr", ["-a", socketIn(server.directory), "-n", "k8s.io", ...args])).stdout;
  return { ...server, ctr, importImage: async (tarFile) => void (await ctr("images", "import", tarFile)) };
}

function socketIn(directory: string): string {
  return join(directory, "node", "containerd.sock");
}

/**
 * One per network namespace, as root: the bridge, the firewall and the control groups are the node's own. `make
 * test-k8s` makes the namespaces, which end with all that ran in them.
 */
export async function startCluster(): Promise<Cluster> {
  await using stack = new AsyncDisposableStack();
  await run("ip", ["link", "add", nodeConfig.bridge, "type", "bridge"]);
  stack.defer(async () => void (await run("ip", ["link", "del", nodeConfig.bridge])));
  await run("ip", ["addr", "replace", `${nodeConfig.address}/24`, "dev", nodeConfig.bridge]);
  await run("ip", ["link", "set", nodeConfig.bridge, "up"]);
  // kube-proxy turns these addresses into Pods' only for packets that have a way to go.
  await run("ip", ["route", "replace", serviceNetwork.cidr, "dev", nodeConfig.bridge]);
  await writeFile("/proc/sys/net/ipv4/ip_forward", "1");
  const plane = withNode(stack.use(await startControlPlane({ nodeAddress: nodeConfig.address })));
  const directory = join(plane.directory, "node");
  const log = (name: string): string => join(plane.directory, `${name}.log`);
  for (const name of ["cni", "kubelet", "containerd"]) await mkdir(join(directory, name), { recursive: true });
  const socket = socketIn(plane.directory);
  await writeFile(join(directory, "cni", "10-bridge.conflist"), nodeConfig.network(directory));
  await writeFile(join(directory, "containerd.toml"), nodeConfig.containerd(directory, socket));
  // Their mounts and directories outlive the programs: the last to be removed.
  stack.defer(() => clear(directory));
  stack.use(
    await startProgram("containerd", ["--config", join(directory, "containerd.toml")], {
      logFile: log("containerd"),
      ready: async () => (await plane.ctr("version")) !== "",
    }),
  );
  stack.defer(async () => await endContainers(plane));
  const certificate = await plane.issue("kubelet", "/O=system:nodes/CN=system:node:node1", "serverAuth", [
    `IP:${nodeConfig.address}`,
    "IP:127.0.0.1",
  ]);
  await writeFile(
    join(directory, "kubelet.yaml"),
    JSON.stringify(nodeConfig.kubelet({ directory, socket, caFile: plane.caFile, certificate })),
  );
  const isReady = async (): Promise<boolean> => {
    const { status } = nodeSchema.parse(await plane.ask("/api/v1/nodes/node1"));
    return status.conditions.some((condition) => condition.type === "Ready" && condition.status === "True");
  };
  stack.use(
    await startProgram(
      kubeProgram("kubelet"),
      [
        `--config=${join(directory, "kubelet.yaml")}`,
        `--kubeconfig=${plane.kubeconfigOf("system:node:node1")}`,
        `--root-dir=${join(directory, "kubelet")}`,
        `--cert-dir=${join(directory, "kubelet", "pki")}`,
        "--hostname-override=node1",
        `--node-ip=${nodeConfig.address}`,
      ],
      { logFile: log("kubelet"), ready: isReady },
    ),
  );
  const grant = "create clusterrolebinding kube-proxy --clusterrole=system:node-proxier --user=system:kube-proxy";
  await plane.kubectl(grant.split(" "));
  stack.use(
    await startProgram(
      kubeProgram("kube-proxy"),
      [
        `--kubeconfig=${plane.kubeconfigOf("system:kube-proxy")}`,
        "--hostname-override=node1",
        `--cluster-cidr=${nodeConfig.pods}`,
        "--proxy-mode=iptables",
        // This machine's limits on connections are not the tests' to change.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
      ],
      { logFile: log("kube-proxy"), ready: () => Promise.resolve(true) },
    ),
  );
  const owned = stack.move();
  return { ...plane, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Removes every container while containerd still runs: the shims would keep them. */
async function endContainers(node: NodeApiServer): Promise<void> {
  const lines = (text: string): readonly string[] => text.split("\n").filter((line) => line !== "");
  for (const task of lines(await node.ctr("tasks", "ls", "-q")))
    await node.ctr("tasks", "kill", "-s", "KILL", task).catch(() => undefined);
  for (const task of lines(await node.ctr("tasks", "ls", "-q")))
    await until("the container has ended", () => node.ctr("tasks", "rm", "-f", task), 10_000).catch(() => undefined);
  for (const container of lines(await node.ctr("containers", "ls", "-q")))
    await node.ctr("containers", "rm", container).catch(() => undefined);
}

/** Unmounts what lies below, deepest first, and removes what the node has left elsewhere. */
async function clear(directory: string): Promise<void> {
  const mounts = (await readFile("/proc/self/mounts", "utf8"))
    .split("\n")
    .map((line) => line.split(" ")[1] ?? "")
    .filter((path) => path.startsWith(`${directory}/`));
  for (const path of mounts.toSorted().toReversed()) await run("umount", ["-l", path]).catch(() => undefined);
  const find = ["/sys/fs/cgroup", "-depth", "-type", "d", "-path", "*/kubepods*", "-exec", "rmdir", "{}", "+"];
  await run("find", find).catch(() => undefined);
  await rm(directory, { recursive: true, force: true });
}
