import type { ContainerCreateOptions } from "dockerode";
import type { Container, Workload } from "../../api/workload.ts";
import type { HostFacts } from "./host-facts.ts";

/** Docker keeps this much of a container's output; Berth copies it continuously. */
const logOptions = { Type: "json-file", Config: { "max-size": "16m", "max-file": "2" } };

export interface MakeOptions {
  readonly name: string;
  readonly network: string;
  readonly labels: Readonly<Record<string, string>>;
  /** With secrets read. */
  readonly env: Readonly<Record<string, string>>;
  readonly facts: HostFacts;
}

/** The whole request that creates a container. Pure; tests compare it whole, per engine and backend. */
export function containerOptions(
  workload: Workload,
  container: Container,
  { name, network, labels, env, facts }: MakeOptions,
): ContainerCreateOptions {
  const inside = `${container.port}/tcp`;
  const [program = "", ...args] = workload.command;
  const launch = container.replacesEntrypoint ? { Entrypoint: [program], Cmd: args } : { Cmd: [...workload.command] };
  const { gpus, memoryBytes, cpus, shmSizeBytes } = container;
  const { deviceGroups } = facts;
  return {
    name,
    Image: container.image,
    ...launch,
    Env: Object.entries(env).map(([key, value]) => `${key}=${value}`),
    Labels: { ...labels },
    ExposedPorts: { [inside]: {} },
    // Berth probes the engine itself; the image's own check would run every few seconds without use.
    Healthcheck: { Test: ["NONE"] },
    ...(workload.workingDir === undefined ? {} : { WorkingDir: workload.workingDir }),
    HostConfig: {
      NetworkMode: network,
      // Only on this address: clients reach engines through the gateway.
      PortBindings: { [inside]: [{ HostIp: "127.0.0.1", HostPort: String(workload.port) }] },
      // Only the operator starts engines.
      RestartPolicy: { Name: "no" },
      LogConfig: logOptions,
      IpcMode: "private",
      SecurityOpt: ["no-new-privileges"],
      CapDrop: ["ALL"],
      ...(container.capabilities.length === 0 ? {} : { CapAdd: [...container.capabilities] }),
      ...(container.hasInit ? { Init: true } : {}),
      ...(container.isRootReadOnly
        ? { ReadonlyRootfs: true, Tmpfs: { "/tmp": "rw,noexec,nosuid,nodev,mode=1777" } }
        : {}),
      Mounts: mountsOf(workload, container, facts),
      ...(container.devices.length === 0
        ? {}
        : {
            Devices: container.devices.map((path) => ({
              PathOnHost: path,
              PathInContainer: path,
              CgroupPermissions: "rw",
            })),
          }),
      ...(deviceGroups.length === 0 ? {} : { GroupAdd: deviceGroups.map(String) }),
      ...(gpus === undefined ? {} : { DeviceRequests: [gpuRequest(gpus, facts)] }),
      ...(container.isMemlockUnlimited ? { Ulimits: [{ Name: "memlock", Soft: -1, Hard: -1 }] } : {}),
      ...(shmSizeBytes === undefined ? {} : { ShmSize: shmSizeBytes }),
      // The same limit for swap: an engine in swap is slower than one that reports its kill.
      ...(memoryBytes === undefined ? {} : { Memory: memoryBytes, MemorySwap: memoryBytes }),
      ...(cpus === undefined ? {} : { NanoCpus: Math.round(cpus * 1e9) }),
    },
  };
}

type Mounts = NonNullable<NonNullable<ContainerCreateOptions["HostConfig"]>["Mounts"]>;

/**
 * Models have the same path inside, so that links and flags mean the same; the manifest's own mounts take precedence. Of
 * what Berth itself keeps, the engine gets its own directory for contexts alone.
 */
function mountsOf({ contextPlace }: Workload, container: Container, facts: HostFacts): Mounts {
  const targets = new Set(container.mounts.map(({ target }) => target));
  return [
    ...facts.modelDirectories
      .filter((path) => !targets.has(path))
      .map((path) => ({ Type: "bind" as const, Source: path, Target: path, ReadOnly: true })),
    ...container.mounts.map(({ source, target, readOnly }) => ({
      Type: "bind" as const,
      Source: source,
      Target: target,
      ReadOnly: readOnly,
    })),
    ...(contextPlace === undefined
      ? []
      : [{ Type: "bind" as const, Source: contextPlace.source, Target: contextPlace.target, ReadOnly: false }]),
  ];
}

type GpuRequest = NonNullable<NonNullable<ContainerCreateOptions["HostConfig"]>["DeviceRequests"]>[number];

/** By CDI, or as `docker run --gpus` does. */
function gpuRequest(gpus: number | "all", { gpuDriver }: HostFacts): GpuRequest {
  if (gpuDriver === "nvidia") return { Driver: "", Count: gpus === "all" ? -1 : gpus, Capabilities: [["gpu"]] };
  const ids = gpus === "all" ? ["all"] : Array.from({ length: gpus }, (_, index) => String(index));
  return { Driver: "cdi", DeviceIDs: ids.map((id) => `nvidia.com/gpu=${id}`) };
}
