import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Container, Workload } from "../../../src/api/workload.ts";
import { containerOptions } from "../../../src/runtimes/docker/container-options.ts";
import type { HostFacts } from "../../../src/runtimes/docker/host-facts.ts";
import { workload } from "../../operator/fixture.ts";
import { plainContainer } from "../../support/container.ts";

const noFacts: HostFacts = { deviceGroups: [], modelDirectories: ["/models"], gpuDriver: "nvidia" };

function optionsFor(
  container: Partial<Container> = {},
  facts: Partial<HostFacts> = {},
  changes: Partial<Workload> = {},
): unknown {
  const whole: Container = { ...plainContainer, modelFiles: ["/models/tiny.gguf"], ...container };
  const made = workload({ hash: "h", runtime: "docker", command: ["--port", "8080"], container: whole, ...changes });
  return containerOptions(made, whole, {
    name: "berth-1-primary",
    network: "berth-1",
    labels: { a: "b" },
    env: { HOST: "0.0.0.0", PORT: "8080" },
    facts: { ...noFacts, ...facts },
  });
}

const host = {
  NetworkMode: "berth-1",
  PortBindings: { "8080/tcp": [{ HostIp: "127.0.0.1", HostPort: "8081" }] },
  RestartPolicy: { Name: "no" },
  LogConfig: { Type: "json-file", Config: { "max-size": "16m", "max-file": "2" } },
  IpcMode: "private",
  SecurityOpt: ["no-new-privileges"],
  CapDrop: ["ALL"],
  ReadonlyRootfs: true,
  Tmpfs: { "/tmp": "rw,noexec,nosuid,nodev,mode=1777" },
  Mounts: [{ Type: "bind", Source: "/models", Target: "/models", ReadOnly: true }],
};
const all = {
  name: "berth-1-primary",
  Image: "llama@sha256:1",
  Cmd: ["--port", "8080"],
  Env: ["HOST=0.0.0.0", "PORT=8080"],
  Labels: { a: "b" },
  ExposedPorts: { "8080/tcp": {} },
  Healthcheck: { Test: ["NONE"] },
  HostConfig: host,
};
const { ReadonlyRootfs: _root, Tmpfs: _tmpfs, ...writable } = host;
const device = (path: string): object => ({ PathOnHost: path, PathInContainer: path, CgroupPermissions: "rw" });
const bind = (Source: string, Target: string, ReadOnly: boolean): object => ({
  Type: "bind",
  Source,
  Target,
  ReadOnly,
});
const onHost = (changes: object, more: object = {}): object => ({
  ...all,
  ...more,
  HostConfig: { ...host, ...changes },
});
const out = { source: "/srv/out", target: "/out", readOnly: false };
const save = ["--port", "8080", "--slot-save-path", "/berth/context"];

describe("the request that makes a container", () => {
  const table: readonly [string, unknown, unknown][] = [
    ["on the CPU", optionsFor(), all],
    [
      "on Vulkan: the render nodes and their numeric groups",
      optionsFor({ devices: ["/dev/dri"] }, { deviceGroups: [44, 105] }),
      onHost({ Devices: [device("/dev/dri")], GroupAdd: ["44", "105"] }),
    ],
    [
      "on ROCm",
      optionsFor({ devices: ["/dev/kfd", "/dev/dri"] }, { deviceGroups: [105] }),
      onHost({ Devices: [device("/dev/kfd"), device("/dev/dri")], GroupAdd: ["105"] }),
    ],
    [
      "on CUDA, by device request",
      optionsFor({ gpus: "all" }),
      onHost({ DeviceRequests: [{ Driver: "", Count: -1, Capabilities: [["gpu"]] }] }),
    ],
    [
      "on CUDA, by CDI",
      optionsFor({ gpus: 2 }, { gpuDriver: "cdi" }),
      onHost({ DeviceRequests: [{ Driver: "cdi", DeviceIDs: ["nvidia.com/gpu=0", "nvidia.com/gpu=1"] }] }),
    ],
    [
      "on CUDA, every GPU by CDI",
      optionsFor({ gpus: "all" }, { gpuDriver: "cdi" }),
      onHost({ DeviceRequests: [{ Driver: "cdi", DeviceIDs: ["nvidia.com/gpu=all"] }] }),
    ],
    [
      "on the NPU: locked memory without a limit",
      optionsFor({ devices: ["/dev/accel/accel0"], isMemlockUnlimited: true, isRootReadOnly: false, hasInit: true }),
      {
        ...all,
        HostConfig: {
          ...writable,
          Init: true,
          Devices: [device("/dev/accel/accel0")],
          Ulimits: [{ Name: "memlock", Soft: -1, Hard: -1 }],
        },
      },
    ],
    [
      "with limits, shared memory, a working directory, a capability and mounts of the manifest's",
      optionsFor(
        {
          shmSizeBytes: 1024,
          memoryBytes: 4096,
          cpus: 1.5,
          capabilities: ["SYS_NICE"],
          mounts: [{ source: "/srv/models", target: "/models", readOnly: true }, out],
        },
        {},
        { workingDir: "/work" },
      ),
      onHost(
        {
          CapAdd: ["SYS_NICE"],
          ShmSize: 1024,
          Memory: 4096,
          MemorySwap: 4096,
          NanoCpus: 1_500_000_000,
          Mounts: [bind("/srv/models", "/models", true), bind("/srv/out", "/out", false)],
        },
        { WorkingDir: "/work" },
      ),
    ],
    [
      "with a place of its own for contexts, after the manifest's mounts",
      optionsFor(
        { mounts: [out] },
        {},
        { command: save, contextPlace: { source: "/state/contexts/primary/main", target: "/berth/context" } },
      ),
      onHost(
        {
          Mounts: [
            ...host.Mounts,
            bind("/srv/out", "/out", false),
            bind("/state/contexts/primary/main", "/berth/context", false),
          ],
        },
        { Cmd: save },
      ),
    ],
    [
      "with a command of the manifest's own",
      optionsFor({ replacesEntrypoint: true }, {}, { command: ["/bin/serve", "--fast"] }),
      { ...all, Entrypoint: ["/bin/serve"], Cmd: ["--fast"] },
    ],
    [
      "with the places that a model's links lead to",
      optionsFor({}, { modelDirectories: ["/blobs", "/models"] }),
      onHost({ Mounts: [bind("/blobs", "/blobs", true), ...host.Mounts] }),
    ],
  ];
  for (const [name, options, expected] of table) it(name, () => assert.deepEqual(options, expected));
});
