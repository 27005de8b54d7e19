import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pc, pciTree, type Tree } from "./tree.ts";

// A virtual machine with one H100, as it was recorded: what it prints, whole.
export const address = "0000:00:06.0";
export const recorded: Tree = {
  ...pc,
  ...pciTree(address, { class: "030200", vendor: "10de", device: "2330" }, { driver: "nvidia" }),
  "/dev/nvidiactl": "",
  "/dev/nvidia0": "",
  "/dev/nvidia-uvm": "",
  "/proc/driver/nvidia/version":
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22-I3)\n",
  [`/proc/driver/nvidia/gpus/${address}/information`]: "Model: \t\t NVIDIA H100 80GB HBM3\n",
};
const page = readFileSync("test/fixtures/h100/nvidia-smi.txt", "utf8");
export const mebibyte = 1024 ** 2;

/** The program as it was there: it refuses a whole question for one field that it does not know. */
export function smi(lacks?: string): (words: readonly string[]) => string {
  return (words) => {
    const [query = ""] = words;
    if (words.length === 0) return page;
    if (lacks !== undefined && query.includes(lacks))
      throw new Error(`Command failed\nField "${lacks}" is not a valid field to query.`);
    if (query === "--query-gpu=pci.bus_id,name,memory.total") return "00000000:00:06.0, NVIDIA H100 80GB HBM3, 81559\n";
    assert.equal(
      query,
      "--query-gpu=pci.bus_id,name,memory.total,memory.reserved,memory.free,compute_cap,mig.mode.current",
    );
    return "00000000:00:06.0, NVIDIA H100 80GB HBM3, 81559, 480, 81079, 9.0, Disabled\n";
  };
}
