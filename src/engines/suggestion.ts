import type { Evidence, Hardware, HardwareFacts, Suggestion } from "../api/hardware.ts";
import type { engineKinds, EngineKind } from "../api/names.ts";
import { backendOf, devicesOf, devicesOfBackend } from "./placement.ts";

/** The choice of `backend = "auto"` on that machine, by engine: the same function decides it when a slot is placed. */
export function withSuggestions(facts: HardwareFacts): Hardware {
  const suggest = (engine: EngineKind): Suggestion => suggestion(engine, facts);
  const suggested = {
    llama: suggest("llama"),
    npu: suggest("npu"),
    stt: suggest("stt"),
    tts: suggest("tts"),
    image: suggest("image"),
    custom: suggest("custom"),
  } satisfies Record<(typeof engineKinds)[number], Suggestion>;
  return { ...facts, suggested };
}

function suggestion(engine: EngineKind, facts: HardwareFacts): Suggestion {
  const { value, reason } = backendOf({ engine, backend: "auto" }, devicesOf(facts));
  const evidence: Evidence[] = [];
  const obstacles: string[] = [];
  let available = true;
  for (const needed of value === "cuda" ? ["/dev/nvidiactl"] : devicesOfBackend[value]) {
    // A directory stands for the nodes in it that compute.
    const prefix = needed === "/dev/dri" ? "/dev/dri/renderD" : needed;
    const nodes = facts.devices.filter(({ path }) => path.startsWith(prefix));
    for (const node of nodes) {
      evidence.push({ source: node.path, says: ownerOf(node.path, facts) ?? "is there" });
      if (node.problem !== null) obstacles.push(`${node.path} ${node.problem}`);
    }
    if (nodes.length > 0) continue;
    available = false;
    obstacles.push(`there is no ${needed}`);
  }
  if (value === "cpu" && dependsOnDevices(engine)) {
    evidence.push(
      { source: "/dev/nvidiactl", says: "is not there" },
      { source: "/dev/dri", says: "has no render node" },
    );
  }
  if (engine === "npu" && facts.npu !== null && facts.npu.vendor !== "amd")
    obstacles.push("FastFlowLM runs on AMD's XDNA NPUs only");
  return { backend: value, reason, available, obstacles, evidence };
}

/** The other engines compute on one kind of device, on any machine. */
function dependsOnDevices(engine: EngineKind): boolean {
  return engine === "llama" || engine === "image";
}

/** The vendor of a device file, where it is known. */
function ownerOf(path: string, { gpus, npu }: HardwareFacts): string | undefined {
  const gpu = gpus.find(({ render_node }) => render_node === path);
  if (gpu !== undefined)
    return `${gpu.name ?? `${gpu.vendor} ${gpu.device_id ?? gpu.id}`}, driver ${gpu.driver ?? "none"}`;
  if (npu?.device === path)
    return `${npu.name ?? `${npu.vendor} ${npu.device_id ?? "NPU"}`}, driver ${npu.driver ?? "none"}`;
  return undefined;
}
