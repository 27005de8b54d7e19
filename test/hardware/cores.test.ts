import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { coresOf } from "../../src/operator/observe/hardware.ts";
import { pc, probed, type Tree } from "./tree.ts";

/** Processors with the core of each, as /proc/cpuinfo has them. */
function cpuinfo(cores: readonly number[], packageOf: (id: number) => number = () => 0): string {
  return cores
    .map(
      (core, id) =>
        `processor\t: ${id}\nmodel name\t: Example\nphysical id\t: ${packageOf(id)}\ncore id\t\t: ${core}\nflags\t\t: avx2\n`,
    )
    .join("\n");
}

const allowed = (list: string): Tree => ({ "/proc/self/status": `Cpus_allowed_list:\t${list}\n` });
const limit = (quota: string): Tree => ({ "/sys/fs/cgroup/user.slice/cpu.max": `${quota}\n` });

/** Eight cores of two threads each, numbered as Linux does: 0 to 7, then their second threads. */
const threaded: Tree = {
  ...pc,
  "/proc/cpuinfo": cpuinfo([...Array(16).keys()].map((id) => id % 8)),
  ...allowed("0-15"),
};

/** Six fast cores of two threads and eight slow ones of one, as a notebook of Intel's twelfth generation. */
const hybrid: Tree = {
  ...pc,
  "/proc/cpuinfo": cpuinfo([0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 25, 26, 27, 28, 29, 30, 31]),
  "/sys/devices/cpu_core/cpus": "0-11\n",
  "/sys/devices/cpu_atom/cpus": "12-19\n",
  ...allowed("0-19"),
};

/** Four slow cores and four fast ones, as on ARM: /proc/cpuinfo knows no cores. */
const bigLittle: Tree = {
  ...pc,
  "/proc/cpuinfo": [...Array(8).keys()].map((id) => `processor\t: ${id}\nFeatures\t: asimd\n`).join("\n"),
  ...Object.fromEntries(
    [...Array(8).keys()].flatMap((id) => [
      [`/sys/devices/system/cpu/cpu${id}/topology/thread_siblings_list`, `${id}\n`],
      [`/sys/devices/system/cpu/cpu${id}/cpu_capacity`, `${id < 4 ? 290 : 1024}\n`],
    ]),
  ),
  ...allowed("0-7"),
};

const fastest = "the fastest that may be used";
const limited = "as affinity or control group allow";
const sockets = cpuinfo([0, 1, 0, 1], (id) => Math.floor(id / 2));
const cases: readonly (readonly [string, Tree, number, string])[] = [
  ["two plain cores", pc, 2, "2 cores"],
  ["cores of two threads count once", threaded, 8, "8 cores"],
  ["two sockets with equal numbers of cores", { ...pc, "/proc/cpuinfo": sockets, ...allowed("0-3") }, 4, "4 cores"],
  ["the fast cores of two kinds", hybrid, 6, `6 of 14 cores, ${fastest}`],
  ["an affinity to slow cores alone", { ...hybrid, ...allowed("12-19") }, 8, `8 of 14 cores, ${fastest}`],
  ["an affinity to some fast cores", { ...hybrid, ...allowed("0-3,12-19") }, 2, `2 of 14 cores, ${fastest}`],
  ["an affinity to both threads of some cores", { ...threaded, ...allowed("0-3,8-11") }, 4, `4 of 8 cores, ${fastest}`],
  ["the limit of a control group", { ...threaded, ...limit("350000 100000") }, 3, `3 of 8 cores, ${limited}`],
  ["half a core", { ...threaded, ...limit("50000 100000") }, 1, `1 of 8 cores, ${limited}`],
  ["a limit above the cores", { ...threaded, ...limit("1200000 100000") }, 8, "8 cores"],
  ["a limit on fast and slow cores", { ...hybrid, ...limit("400000 100000") }, 4, `4 of 14 cores, ${limited}`],
  ["fast and slow clusters on ARM", bigLittle, 4, `4 of 8 cores, ${fastest}`],
];

describe("the cores that engines compute on", () => {
  for (const [what, tree, count, text] of cases) {
    it(`are ${count}: ${what}`, async () => {
      const { cpu } = await probed({ tree });
      assert.deepEqual(coresOf(cpu), { count, what: text });
    });
  }

  it("are unknown where nothing says them", async () => {
    const { cpu } = await probed({ tree: { ...pc, "/proc/cpuinfo": "" } });
    assert.equal(coresOf(cpu), undefined);
  });

  it("are not taken from an invalid list", async () => {
    const { cpu } = await probed({ tree: { ...pc, "/sys/devices/cpu_core/cpus": "all of them\n", ...allowed("0-") } });
    assert.deepEqual(coresOf(cpu), { count: 2, what: "2 cores" });
  });
});
