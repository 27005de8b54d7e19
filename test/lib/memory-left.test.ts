import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { memoryLeft } from "../../src/lib/memory-left.ts";
import { tempDir } from "../support/temp-dir.ts";

const gibibyte = 1024 ** 3;
const machine = "MemTotal:       67108864 kB\nMemFree:         1048576 kB\nMemAvailable:   33554432 kB\n";
const unified = { "proc/meminfo": machine, "sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n" };
const root = { ...unified, "proc/self/cgroup": "0::/\n" };

/** A tree of files as /proc and control groups have them. */
async function rootWith(files: Readonly<Record<string, string>>): Promise<AsyncDisposable & { readonly path: string }> {
  const root = await tempDir();
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root.path, path)), { recursive: true });
    await writeFile(join(root.path, path), text);
  }
  return root;
}

const group = (limit: string, current: number, file: number): Record<string, string> => ({
  "memory.max": `${limit}\n`,
  "memory.current": `${current}\n`,
  "memory.stat": `anon ${current - file}\nfile ${file}\ninactive_file ${file - gibibyte}\nactive_file ${gibibyte}\nunevictable 0\n`,
});
const below = (directory: string, files: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(files).map(([name, text]) => [`${directory}/${name}`, text]));

describe("the memory that is left", () => {
  const v1 = "sys/fs/cgroup/memory/docker/1";
  const rows: Readonly<Record<string, readonly [total: number, available: number, files: Record<string, string>]>> = {
    "is the machine's without a limit": [
      64,
      32,
      { ...root, ...below("sys/fs/cgroup", group("max", 8 * gibibyte, 4 * gibibyte)) },
    ],
    "is not less after a model has filled the group's cache": [
      8,
      6,
      { ...root, ...below("sys/fs/cgroup", group(String(8 * gibibyte), 8 * gibibyte, 6 * gibibyte)) },
    ],
    "is that of the group around it that has the least left": [
      8,
      3,
      {
        ...unified,
        "proc/self/cgroup": "0::/outer/inner\n",
        ...below("sys/fs/cgroup/outer/inner", group(String(16 * gibibyte), 4 * gibibyte, 2 * gibibyte)),
        ...below("sys/fs/cgroup/outer", group(String(8 * gibibyte), 7 * gibibyte, 2 * gibibyte)),
      },
    ],
    "is read from version 1 of control groups too": [
      4,
      2,
      {
        "proc/meminfo": machine,
        "proc/self/cgroup": "5:memory:/docker/1\n4:cpu:/docker/1\n",
        [`${v1}/memory.limit_in_bytes`]: `${4 * gibibyte}\n`,
        [`${v1}/memory.usage_in_bytes`]: `${4 * gibibyte}\n`,
        [`${v1}/memory.stat`]: `inactive_file 1\ntotal_inactive_file ${gibibyte}\ntotal_active_file ${gibibyte}\n`,
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n",
      },
    ],
  };
  for (const [title, [total, available, files]] of Object.entries(rows)) {
    it(title, async () => {
      await using tree = await rootWith(files);
      const expected = { totalBytes: total * gibibyte, availableBytes: available * gibibyte };
      assert.deepEqual(await memoryLeft(tree.path), expected);
    });
  }

  it("is known on this machine, and unknown without /proc", async () => {
    const left = await memoryLeft();
    assert.ok(left !== undefined && left.availableBytes > 0 && left.availableBytes <= left.totalBytes);
    await using empty = await tempDir();
    assert.equal(await memoryLeft(empty.path), undefined);
  });
});
