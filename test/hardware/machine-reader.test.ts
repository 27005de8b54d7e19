import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MachineReader } from "../../src/hardware/machine-reader.ts";
import type { Machine } from "../../src/hardware/machine.ts";
import { address, mebibyte } from "./h100-machine.ts";

const meminfo = "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\n";
const gib = 1024 ** 3;
const memory = { used_bytes: 8 * gib, free_bytes: 8 * gib };
// The figures of an H100 with two engines, as they were recorded.
const smi = "00000000:00:06.0, 81559, 18755, 76, 46\n";
const h100 = {
  id: address,
  total_bytes: 81_559 * mebibyte,
  used_bytes: 18_755 * mebibyte,
  utilization_percent: 76,
  temperature_celsius: 46,
};
const start = Date.parse("2026-01-01T00:00:00.000Z");

/** A machine with these files, whose clock and files a test moves on. */
function scene(files: Record<string, string>, run: () => Promise<string> = () => Promise.reject(new Error("no"))) {
  const state = { files, atMs: start, runs: 0 };
  const machine: Machine = {
    architecture: "x64",
    user: { uid: 0, groups: [0] },
    text: async (path) => {
      if (state.files[path] === "closed") throw new Error("EACCES");
      return state.files[path];
    },
    names: async (path) => [
      ...new Set(
        Object.keys(state.files).flatMap((file) =>
          file.startsWith(`${path}/`) ? [file.slice(path.length + 1).split("/")[0] ?? ""] : [],
        ),
      ),
    ],
    target: async (path) => state.files[path],
    node: async (path) => (path in state.files ? { mode: 0o666, uid: 0, gid: 0, refusal: undefined } : undefined),
    space: async () => ({ totalBytes: 0, freeBytes: 0 }),
    run: async (program, words, signal) => {
      assert.equal(program, "nvidia-smi");
      assert.deepEqual(words, [
        "--query-gpu=pci.bus_id,memory.total,memory.used,utilization.gpu,temperature.gpu",
        "--format=csv,noheader,nounits",
      ]);
      assert.ok(!signal.aborted);
      state.runs += 1;
      return await run();
    },
    now: () => new Date(state.atMs),
  };
  return { state, reader: new MachineReader(machine) };
}

describe("a reading of the machine", () => {
  it("has memory, and the share of the processors since the reading before", async () => {
    const { state, reader } = scene({
      "/proc/meminfo": meminfo,
      "/proc/stat": "cpu  100 0 0 900 0 0 0 0 50 0\ncpu0 …\n",
    });
    const first = { read_at: "2026-01-01T00:00:00.000Z", cpu_percent: null, memory, gpus: [] };
    assert.deepEqual(await reader.read(), first);
    state.files["/proc/stat"] = "cpu  160 0 15 1000 25 0 0 0 90 0\n";
    state.atMs += 5000;
    // Of 200 ticks 75 were work: waiting for disks is no work, and the time of guests stands in two columns.
    assert.equal((await reader.read()).cpu_percent, 38);
    state.atMs += 60_001;
    assert.equal((await reader.read()).cpu_percent, null);
  });

  const unread: readonly (readonly [what: string, files: Record<string, string>])[] = [
    ["files are missing", {}],
    [
      "files may not be read",
      { "/proc/meminfo": "closed", "/proc/stat": "closed", "/sys/class/drm/renderD128": "closed" },
    ],
    ["files have another form", { "/proc/meminfo": "MemTotal: much\n", "/proc/stat": "intr 1 2\n" }],
  ];
  for (const [what, files] of unread)
    it(`is null where ${what}`, async () => {
      const { state, reader } = scene(files);
      await reader.read();
      state.atMs += 5000;
      const { cpu_percent, memory: read, gpus } = await reader.read();
      assert.deepEqual([cpu_percent, read, gpus], [null, { used_bytes: null, free_bytes: null }, []]);
    });

  it("has NVIDIA's GPUs by nvidia-smi, with null for what a GPU does not report", async () => {
    const { reader } = scene(
      { "/dev/nvidiactl": "" },
      async () => `${smi}00000000:00:07.0, 81559, [N/A], [Not Supported], N/A\n`,
    );
    const bare = {
      ...h100,
      id: "0000:00:07.0",
      used_bytes: null,
      utilization_percent: null,
      temperature_celsius: null,
    };
    assert.deepEqual((await reader.read()).gpus, [h100, bare]);
  });

  it("runs no program without an NVIDIA GPU, and after a failure none for a minute", async () => {
    const without = scene({});
    await without.reader.read();
    assert.equal(without.state.runs, 0);
    let isBroken = true;
    const broken = scene({ "/dev/nvidiactl": "" }, async () => {
      if (isBroken) throw new Error("it does not answer");
      return smi;
    });
    for (const [atMs, runs] of [
      [0, 1],
      [5000, 1],
      [59_999, 1],
      [60_000, 2],
    ] as const) {
      broken.state.atMs = start + atMs;
      assert.deepEqual((await broken.reader.read()).gpus, []);
      assert.equal(broken.state.runs, runs);
    }
    isBroken = false;
    broken.state.atMs = start + 120_000;
    assert.deepEqual((await broken.reader.read()).gpus, [h100]);
  });

  it("has AMD's GPUs by the files of their driver, and no GPU without any figure", async () => {
    const card = "/sys/bus/pci/devices/0000:03:00.0";
    const { reader } = scene({
      "/sys/class/drm/card0": "/sys/devices/pci0000:00/0000:03:00.0/drm/card0",
      "/sys/class/drm/renderD128": "/sys/devices/pci0000:00/0000:03:00.0/drm/renderD128",
      "/sys/class/drm/renderD129": "/sys/devices/pci0000:00/0000:00:02.0/drm/renderD129",
      [`${card}/mem_info_vram_total`]: `${16 * gib}\n`,
      [`${card}/mem_info_vram_used`]: `${5 * gib}\n`,
      [`${card}/gpu_busy_percent`]: "97\n",
      [`${card}/hwmon/hwmon4/temp1_input`]: "61500\n",
    });
    assert.deepEqual((await reader.read()).gpus, [
      {
        id: "0000:03:00.0",
        total_bytes: 16 * gib,
        used_bytes: 5 * gib,
        utilization_percent: 97,
        temperature_celsius: 62,
      },
    ]);
  });
});
