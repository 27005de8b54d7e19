import { capabilitiesOfEngine } from "../api/slot.ts";
import { containerNeeded, singleProcess } from "./single.ts";

/**
 * ComfyUI (https://docs.comfy.org/development/comfyui-server/comms_routes): started as its image does, with what the
 * manifest appends. A model is loaded with the first drawing that names it.
 */
export const image = singleProcess({
  kind: "image",
  capabilities: capabilitiesOfEngine.image,
  // Drawings, previews and the cache of nodes lie among its own files.
  needs: { port: 8188, writesRoot: true, needsInit: true },
  healthPath: "/system_stats",
  launch: (input) => containerNeeded(input, "image") ?? { command: [], identity: undefined },
  warmUp: () => undefined,
  model: ({ model }) => (model?.state === "available" ? model : undefined),
});
