import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hardwareText } from "../../src/cli/hardware.ts";
import { gpuHoldings } from "../../src/hardware/gpu-memory.ts";
import type { Machine } from "../../src/hardware/machine.ts";
import { address, mebibyte, recorded, smi } from "./h100-machine.ts";
import { gpu, kernel } from "./parts.ts";
import { probed } from "./tree.ts";

const card = gpu({
  id: address,
  vendor: "nvidia",
  vendor_id: "10de",
  device_id: "2330",
  name: "NVIDIA H100 80GB HBM3",
  integrated: false,
  driver: "nvidia",
  memory_bytes: 81_559 * mebibyte,
  backends: ["cuda"],
  evidence: [{ source: `/sys/bus/pci/devices/${address}`, says: "10de:2330, driver nvidia" }],
});

describe("an H100", () => {
  it("has the usable memory, its free part, compute capability, CUDA and MIG", async () => {
    const { gpus, drivers } = await probed({ tree: recorded, smi: smi() });
    const more = {
      memory_usable_bytes: 81_079 * mebibyte,
      memory_free_bytes: 81_079 * mebibyte,
      compute_capability: "9.0",
      cuda_version: "13.0",
      mig: false,
    };
    assert.deepEqual(gpus, [{ ...card, ...more }]);
    assert.deepEqual(drivers, [kernel("nvidia", "580.159.04")]);
  });

  it("is listed as text with its capability, CUDA and MIG", async () => {
    const text = await hardwareText(await probed({ tree: recorded, smi: smi() }), "table");
    const line = text.split("\n").find((each) => each.startsWith("gpu"));
    assert.equal(
      line,
      "gpu       0000:00:06.0 NVIDIA H100 80GB HBM3, compute capability 9.0, CUDA 13.0, " +
        "79.6 GiB (79.2 GiB usable, 79.2 GiB free), driver nvidia, cuda",
    );
  });

  it("has what an older driver knows, where that refuses a field", async () => {
    const { gpus, problems } = await probed({ tree: recorded, smi: smi("compute_cap") });
    assert.deepEqual(gpus, [{ ...card, cuda_version: "13.0" }]);
    assert.deepEqual(problems, []);
  });
});

/** A machine of which only these files are there. */
function machine(files: Readonly<Record<string, string>>, apps = ""): Machine {
  const asked: string[] = [];
  return {
    architecture: "x64",
    user: { uid: 0, groups: [0] },
    text: async (path) => files[path],
    names: async (path) =>
      Object.keys(files).flatMap((file) =>
        file.startsWith(`${path}/`) ? [file.slice(path.length + 1).split("/")[0] ?? ""] : [],
      ),
    target: async () => undefined,
    node: async (path) => (path in files ? { mode: 0o666, uid: 0, gid: 0, refusal: undefined } : undefined),
    space: async () => ({ totalBytes: 0, freeBytes: 0 }),
    run: async (_program, words) => {
      asked.push(words.join(" "));
      assert.equal(words[0], "--query-compute-apps=gpu_bus_id,pid,used_memory");
      return apps;
    },
    now: () => new Date(),
  };
}
const { signal } = new AbortController();

describe("what processes hold on GPUs", () => {
  it("comes from NVIDIA's driver per process", async () => {
    const two = "00000000:00:06.0, 742, 9374\n00000000:00:06.0, 817, 9366\n00000000:00:06.0, 900, [N/A]\n";
    assert.deepEqual(await gpuHoldings(machine({ "/dev/nvidiactl": "" }, two), [742], signal), [
      { pid: 742, device: address, bytes: 9374 * mebibyte },
      { pid: 817, device: address, bytes: 9366 * mebibyte },
    ]);
  });

  it("comes from the kernel per open render node, once for each client of it", async () => {
    const amd = "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t7\ndrm-pdev:\t0000:03:00.0\n";
    const held = "drm-memory-vram:\t2048 KiB\ndrm-memory-gtt: \t1024 KiB\ndrm-memory-cpu: \t512 KiB\n";
    const intel = "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:00:02.0\n";
    const files = {
      "/sys/class/drm/renderD128/dev": "",
      "/proc/50/fdinfo/0": "pos:\t0\nflags:\t02\n",
      "/proc/50/fdinfo/7": `${amd}${held}`,
      "/proc/50/fdinfo/8": `${amd}${held}`,
      "/proc/60/fdinfo/5": `${intel}drm-total-system:\t4 MiB\ndrm-resident-system:\t3 MiB\ndrm-total-gtt:\t0\n`,
    };
    assert.deepEqual(await gpuHoldings(machine(files), [50, 60, 70], signal), [
      { pid: 50, device: "0000:03:00.0", bytes: 3 * mebibyte },
      { pid: 60, device: "0000:00:02.0", bytes: 3 * mebibyte },
    ]);
  });

  it("is empty on a machine without a GPU, and where the driver does not answer", async () => {
    assert.deepEqual(await gpuHoldings(machine({}), [1], signal), []);
    const broken: Machine = { ...machine({ "/dev/nvidiactl": "" }), run: () => Promise.reject(new Error("stuck")) };
    assert.deepEqual(await gpuHoldings(broken, [1], signal), []);
  });
});
