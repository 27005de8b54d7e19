import type { EvidenceReader } from "./evidence-reader.ts";

/** A GPU as AMD's compute driver numbers it. */
export interface KfdNode {
  /** `gfx1103`. */
  readonly architecture: string;
  readonly version: number;
  readonly source: string;
}

/**
 * GPUs by render node. Each line of the file holds a key, a blank and a number; processors have `gfx_target_version 0`
 * (drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
 */
export async function kfdNodes(reader: EvidenceReader): Promise<ReadonlyMap<string, KfdNode>> {
  const directory = "/sys/class/kfd/kfd/topology/nodes";
  const nodes = new Map<string, KfdNode>();
  for (const name of await reader.names(directory)) {
    const source = `${directory}/${name}/properties`;
    const text = (await reader.text(source)) ?? "";
    const numbers = new Map(
      text.split("\n").map((line) => {
        const [key = "", value = ""] = line.split(" ");
        return [key, Number(value)] as const;
      }),
    );
    const version = numbers.get("gfx_target_version") ?? 0;
    const minor = numbers.get("drm_render_minor") ?? 0;
    if (version > 0 && minor > 0) nodes.set(`renderD${minor}`, { architecture: gfx(version), version, source });
  }
  return nodes;
}

/** Two decimal digits each for minor and stepping, which are one hexadecimal digit in the name: 90010 is gfx90a. */
function gfx(version: number): string {
  const [major, minor, stepping] = [Math.floor(version / 10_000), Math.floor(version / 100) % 100, version % 100];
  return `gfx${major}${minor.toString(16)}${stepping.toString(16)}`;
}
