import assert from "node:assert/strict";
import { test } from "node:test";
import { hardwareSchema } from "../../src/api/hardware.ts";
import { withSuggestions } from "../../src/engines/suggestion.ts";
import { pc, pciTree, probed, type Tree } from "./tree.ts";
import { fc, runs } from "../support/fast-check.ts";

const address = "0000:c5:00.0";
const home = `/sys/devices/pci0000:00/${address}`;
const full: Tree = {
  ...pc,
  ...pciTree(
    address,
    { class: "030000", vendor: "1002", device: "15bf" },
    { driver: "amdgpu", node: ["drm", "renderD128"] },
  ),
  [`${home}/mem_info_vram_total`]: "1073741824\n",
  [`${home}/mem_info_gtt_total`]: "1073741824\n",
  [`${home}/product_name`]: "Example\n",
  "/sys/class/kfd/kfd/topology/nodes/1/properties": "gfx_target_version 110003\ndrm_render_minor 128\n",
  "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu\n",
  "/proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA\n",
  "/sys/module/nvidia/version": "",
  "/usr/share/misc/pci.ids": "1002  AMD\n\t15bf  Phoenix1\n",
  "/dev/nvidiactl": "",
  "/dev/kfd": "",
  "/dev/dri/renderD128": "",
};
const texts = Object.entries(full).flatMap(([path, content]) =>
  typeof content === "string" ? [[path, content] as const] : [],
);
const files = texts.map(([path]) => path);

/** Pieces that files of /proc and /sys are made of, in any order. */
const garbage = fc
  .array(
    fc.oneof(
      fc.constantFrom("processor", "core id", "MemTotal", "flags", "Cpus_allowed_list", "0::/", "Model", "kB", "max"),
      fc.constantFrom(":", ": ", "\n", "\t", " ", ",", "-", "\0", "0x", "../", "1002  "),
      fc.bigInt({ min: -1n, max: 2n ** 64n }).map(String),
      fc.string({ unit: "binary", maxLength: 8 }),
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

/** The same text with other numbers. */
const renumbered = fc
  .tuple(
    fc.constantFrom(...texts),
    fc.nat(64).map((bits) => String(2n ** BigInt(bits) - 1n)),
  )
  .map(([[path, text], number]): [string, string] => [path, text.replaceAll(/\d+/g, number)]);

test("with any content of files, and any unreadable file, a probe answers according to its schema", async () => {
  const broken = fc.dictionary(fc.constantFrom(...files), garbage, { maxKeys: 6 });
  const sketch = fc.record({
    broken,
    odd: fc.array(renumbered, { maxLength: 4 }).map((entries): Tree => Object.fromEntries(entries)),
    closed: fc.subarray([...files, "/sys/class/drm", "/dev", "/dev/dri", "/sys/module"], { maxLength: 3 }),
    smi: fc.oneof(garbage, fc.constant(new Error("\n"))),
  });
  await fc.assert(
    fc.asyncProperty(sketch, async ({ broken: changes, odd, closed, smi }) => {
      const facts = await probed({ tree: { ...full, ...changes, ...odd }, closed, smi });
      const hardware = withSuggestions(facts);
      assert.deepEqual(hardwareSchema.parse(JSON.parse(JSON.stringify(hardware))), hardware);
    }),
    { numRuns: runs(25) },
  );
});
